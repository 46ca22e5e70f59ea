// A field under each heading "Your prediction" for the reader's own, kept in this browser alone.
"use strict";

document.querySelectorAll("#your-prediction, #prediction").forEach((heading) => {
    // Before our answer, which is folded, or before the next section.
    let end = heading.nextElementSibling;
    while (end && !/^(DETAILS|H1|H2)$/.test(end.tagName)) {
        end = end.nextElementSibling;
    }
    const key = `prediction:${location.pathname}`;
    const label = document.createElement("label");
    label.className = "prediction";
    label.textContent = "Write it down before you read on; it stays in this browser.";
    const field = document.createElement("textarea");
    field.rows = 3;
    try {
        field.value = localStorage.getItem(key) ?? "";
    } catch {
        // No storage here: the field forgets.
    }
    field.addEventListener("input", () => {
        try {
            localStorage.setItem(key, field.value);
        } catch {
            // As above.
        }
    });
    // Elsewhere on a page, arrow keys turn to another chapter, and `s` opens the search.
    field.addEventListener("keydown", (event) => event.stopPropagation());
    label.append(field);
    heading.parentElement.insertBefore(label, end);
});
