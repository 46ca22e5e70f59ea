// Lets the keyboard scroll what is wider than the page: listings, tables and pictures. What fits is no stop for the Tab key.
"use strict";

(() => {
    const wide = [...document.querySelectorAll("main pre > code, main .table-wrapper, main span.formula, main figure.trace, main figure.trace figcaption")];
    const mark = () => wide.forEach((element) => {
        if (element.scrollWidth > element.clientWidth + 1 && !element.querySelector("a, button")) {
            element.tabIndex = 0;
        } else {
            element.removeAttribute("tabindex");
        }
    });
    mark();
    window.addEventListener("resize", mark);
    // What is folded has no width until it is opened.
    document.addEventListener("toggle", mark, true);
    // Elsewhere on a page, arrow keys turn to another chapter.
    document.addEventListener("keydown", (event) => {
        if (/^Arrow(Left|Right)$/.test(event.key) && wide.includes(event.target)) {
            event.stopImmediatePropagation();
        }
    }, true);
})();
