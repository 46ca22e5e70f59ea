// On paper: folded answers open, and a dark theme gives way to the light one, pictures and code included. Both come back afterwards. The
// single-page print, which the book's menu offers, has all of them.
"use strict";

(() => {
    const DARK = ["navy", "coal", "ayu"];
    const page = document.documentElement;
    const sheet = (id) => document.getElementById(id);
    const sheets = ["mdbook-highlight-css", "mdbook-tomorrow-night-css", "mdbook-ayu-highlight-css"].map(sheet).filter(Boolean);
    let opened = [];
    let dark = [];
    let disabled = [];

    window.addEventListener("beforeprint", () => {
        opened = [...document.querySelectorAll("details:not([open])")];
        opened.forEach((folded) => { folded.open = true; });
        dark = DARK.filter((theme) => page.classList.contains(theme));
        if (dark.length > 0) {
            page.classList.remove(...dark);
            page.classList.add("light");
            disabled = sheets.map((sheet) => sheet.disabled);
            sheets.forEach((sheet) => { sheet.disabled = sheet.id !== "mdbook-highlight-css"; });
        }
    });

    window.addEventListener("afterprint", () => {
        opened.forEach((folded) => { folded.open = false; });
        if (dark.length > 0) {
            page.classList.remove("light");
            page.classList.add(...dark);
            sheets.forEach((sheet, at) => { sheet.disabled = disabled[at]; });
        }
        [opened, dark] = [[], []];
    });
})();
