/** The functions of d3 that vendor/d3.js has. */
export declare const area: any;
export declare const curveBumpX: any;
export declare const line: any;
export declare const link: any;
export declare const scaleLinear: any;
export declare const scaleLog: any;
