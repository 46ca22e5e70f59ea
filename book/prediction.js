// A field under each heading "Your prediction" for the reader's own, kept in this browser alone.
"use strict";

document.querySelectorAll('[id^="your-prediction"]:is(h2, h3)').forEach((heading) => {
    // Before our answer, which is folded, or before the next heading; but never between a question's form and its answer.
    let end = heading.nextElementSibling;
    while (end && !/^H[1-6]$/.test(end.tagName) && !(end.tagName === "DETAILS" && !end.previousElementSibling.matches("form.question"))) {
        end = end.nextElementSibling;
    }
    const first = heading.id === "your-prediction";
    const key = `prediction:${location.pathname}${first ? "" : `#${heading.id}`}`;
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
