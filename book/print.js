// Opens folded answers on paper, and closes them again afterwards. The single-page print, which the book's menu offers, has all of them.
"use strict";

(() => {
    let opened = [];

    window.addEventListener("beforeprint", () => {
        opened = [...document.querySelectorAll("details:not([open])")];
        opened.forEach((folded) => { folded.open = true; });
    });

    window.addEventListener("afterprint", () => {
        opened.forEach((folded) => { folded.open = false; });
        opened = [];
    });
})();
