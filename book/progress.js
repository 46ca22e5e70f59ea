// Marks the pages that the reader has read, in the sidebar and on the map, and those of the weekend. Kept in this browser alone.
"use strict";

(() => {
    const KEY = "read";
    const end = document.querySelector("nav.onward");
    const weekend = new Set((end?.dataset.weekend ?? "").split(" ").filter(Boolean));
    const load = () => {
        try {
            return new Set(JSON.parse(localStorage.getItem(KEY) ?? "[]"));
        } catch {
            return new Set();
        }
    };
    const save = (read) => {
        try {
            localStorage.setItem(KEY, JSON.stringify([...read]));
        } catch {
            // No storage here: the marks last as long as the page.
        }
    };
    let read = load();

    // Address of a page below the book's root, as the builder writes it.
    const root = new URL(typeof path_to_root === "string" ? path_to_root || "./" : "./", location.href);
    const page = (link) => link.href.split("#")[0].slice(root.href.length);
    // In the sidebar, a page's headings follow it.
    const links = () => document.querySelectorAll(".sidebar .chapter a:not([href*='#']), .map a");
    const mark = () => links().forEach((link) => {
        const is_read = read.has(page(link));
        link.classList.toggle("read", is_read);
        link.classList.toggle("on-weekend", weekend.has(page(link)));
        link.title = is_read ? "read" : "";
    });

    if (end) {
        const box = document.createElement("input");
        box.type = "checkbox";
        const label = document.createElement("label");
        label.append(box, " I have read this page");
        end.prepend(label);
        const set = (is_read) => {
            read = load();
            read[is_read ? "add" : "delete"](end.dataset.page);
            save(read);
            box.checked = is_read;
            mark();
        };
        box.checked = read.has(end.dataset.page);
        // Whoever has scrolled to the end has read it, unless they say otherwise. A page that fits the window is not read at once.
        let scrolled = false;
        const watch = new IntersectionObserver(([entry]) => {
            if (entry.isIntersecting && scrolled) {
                watch.disconnect();
                set(true);
            }
        });
        if (!box.checked) {
            watch.observe(end);
        }
        box.addEventListener("change", () => {
            watch.disconnect();
            set(box.checked);
        });
        document.addEventListener("scroll", () => { scrolled = true; }, { once: true });
    }
    mark();
    // mdBook fills the sidebar later.
    const sidebar = document.querySelector(".sidebar");
    if (sidebar) {
        new MutationObserver(mark).observe(sidebar, { childList: true, subtree: true });
    }
})();
