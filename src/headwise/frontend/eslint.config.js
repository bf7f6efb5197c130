import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["bundle.js", "vendor/", "node_modules/"] },
  js.configs.recommended,
  {
    files: ["src/**/*.js"],
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    rules: {
      eqeqeq: "error",
      "no-var": "error",
      "prefer-const": ["error", { destructuring: "all" }],
      "no-implicit-coercion": ["error", { boolean: true, number: false, string: true }],
      "no-unused-vars": ["error", { args: "after-used", varsIgnorePattern: "^_", argsIgnorePattern: "^_" }],
      "no-shadow": "off",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Tokens are text: nothing is ever parsed as HTML." },
        { property: "outerHTML", message: "Tokens are text: nothing is ever parsed as HTML." },
        { property: "insertAdjacentHTML", message: "Tokens are text: nothing is ever parsed as HTML." },
      ],
    },
  },
  { files: ["*.mjs", "*.js"], languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.node } },
];
