/** The viewer in vendor/openseadragon.cjs. */
declare const OpenSeadragon: any;
export default OpenSeadragon;
