// The forms below the book's questions: says at once whether an answer is right, and unfolds the reason if it is.
document.addEventListener("submit", (event) => {
    const form = event.target.closest("form.question");
    if (!form) {
        return;
    }
    event.preventDefault();
    const said = String(new FormData(form).get("answer")).trim();
    const isRight = said.toLowerCase() === form.dataset.answer.toLowerCase();
    form.querySelector("output").textContent = isRight ? "Right." : `No, not ${said}.`;
    if (isRight) {
        form.nextElementSibling.open = true;
    }
});

// Elsewhere on a page, arrow keys turn to another chapter.
document.addEventListener("keydown", (event) => {
    if (event.target.closest("form.question")) {
        event.stopImmediatePropagation();
    }
}, true);
