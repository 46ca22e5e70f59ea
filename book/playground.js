// Edit & run: an editor below each kernel of the served book, whose text the server compiles, checks and counts on the simulator. In a
// book that nobody serves the links stay as they are, and lead to how to serve it.
"use strict";

(() => {
    const token = document.querySelector('meta[name="warp-token"]')?.content;
    if (!token) {
        return;
    }

    const LOOK_EVERY = 250;
    const FINAL = { right: "Right", found: "Broken rules", wrong: "Wrong", refused: "Does not compile", stopped: "Stopped", missing: "Not run" };
    // Outcomes of the kernels as they are in the course, by file.
    const originals = new Map();

    async function ask(method, path, body) {
        const response = await fetch(path, {
            method,
            cache: "no-store",
            headers: { "x-warp-token": token, ...(body && { "content-type": "application/json" }) },
            body: body && JSON.stringify(body),
        });
        const text = await response.text();
        let answer = {};
        try {
            answer = JSON.parse(text);
        } catch {
            // A refusal is plain text.
        }
        if (!response.ok) {
            throw new Error(answer.error ?? (text.trim() || `the server answered ${response.status}`));
        }
        return answer;
    }

    // Runs a text. `onStart` learns the number of the run, `onStage` where it is.
    async function run(file, text, onStart, onStage) {
        const { id } = await ask("POST", "/.runs", { file, text });
        onStart(id);
        for (;;) {
            const now = await ask("GET", `/.runs/${id}`);
            if (now.stage === "done") {
                return now.outcome;
            }
            onStage(now);
            await new Promise((wake) => setTimeout(wake, LOOK_EVERY));
        }
    }

    function element(name, properties = {}, ...children) {
        const made = Object.assign(document.createElement(name), properties);
        made.append(...children);
        return made;
    }

    function button(text, onClick, properties = {}) {
        const made = element("button", { type: "button", textContent: text, ...properties });
        made.addEventListener("click", onClick);
        return made;
    }

    function remembered(file, text) {
        try {
            if (text === undefined) {
                return sessionStorage.getItem(`kernel:${file}`);
            }
            if (text === null) {
                sessionStorage.removeItem(`kernel:${file}`);
            } else {
                sessionStorage.setItem(`kernel:${file}`, text);
            }
        } catch {
            // No storage here: a reload forgets.
        }
        return null;
    }

    // Constants of the file that a slider can set: `constexpr int BM = 64;`.
    function constantsOf(text) {
        const pattern = /^[ \t]*(?:static[ \t]+)?constexpr[ \t]+(?:int|unsigned|unsigned int)[ \t]+([A-Z][A-Z0-9_]*)[ \t]*=[ \t]*(\d+)[ \t]*;/gm;
        return [...text.matchAll(pattern)].map((found) => {
            const to = found.index + found[0].lastIndexOf(found[2]) + found[2].length;
            return { name: found[1], value: Number(found[2]), from: to - found[2].length, to };
        });
    }

    // The values of a slider: powers of two around one, else whole numbers up to twice as much.
    function choicesAround(value) {
        if (value > 0 && (value & (value - 1)) === 0) {
            return [1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8].map((times) => value * times).filter((choice) => choice >= 1 && choice <= 4096);
        }
        return Array.from({ length: Math.min(2 * value + 1, 64) }, (_, choice) => choice);
    }

    function slidersFor(editor, original) {
        const fieldset = element("fieldset", { className: "sliders" }, element("legend", { textContent: "Constants of this file" }));
        const sliders = constantsOf(original).map(({ name, value }) => {
            const choices = choicesAround(value);
            const input = element("input", { type: "range", min: 0, max: choices.length - 1, step: 1, value: choices.indexOf(value) });
            const output = element("output", { textContent: value });
            input.addEventListener("input", () => {
                const here = constantsOf(editor.text()).find((constant) => constant.name === name);
                if (here) {
                    editor.replace(here.from, here.to, String(choices[input.value]));
                }
            });
            fieldset.append(element("label", {}, `${name} = `, output, input));
            return { name, choices, input, output };
        });
        const follow = (text) => {
            const now = new Map(constantsOf(text).map(({ name, value }) => [name, value]));
            for (const { name, choices, input, output } of sliders) {
                input.disabled = !now.has(name);
                output.textContent = now.get(name) ?? "–";
                input.setAttribute("aria-valuetext", output.textContent);
                const at = choices.indexOf(now.get(name));
                if (at >= 0) {
                    input.value = at;
                }
            }
        };
        return { fieldset: sliders.length > 0 ? fieldset : null, follow };
    }

    const number = (value) => value.toLocaleString("en-GB");

    function change(before, after) {
        if (before === after) {
            return "same";
        }
        return before === 0 ? "new" : `× ${(after / before).toPrecision(3)}`;
    }

    // What both versions cost, a table for each kernel.
    function countsTables(mine, original) {
        return mine.counts.map(({ kernel, launches, counts }) => {
            const found = original?.counts.find((other) => other.kernel === kernel);
            // Counts of fewer launches say nothing beside those of all.
            const before = found?.launches === launches ? found : undefined;
            const rows = [["launches", launches, before?.launches]];
            for (const [name, count] of counts) {
                rows.push([name, count, before?.counts.find(([other]) => other === name)?.[1]]);
            }
            const body = element("tbody");
            for (const [name, count, was] of rows.filter(([, count, was]) => count || was)) {
                const cells = [was === undefined ? "–" : number(was), number(count), was === undefined ? "–" : change(was, count)];
                const row = element("tr", {}, element("th", { scope: "row", textContent: name }));
                row.append(...cells.map((text) => element("td", { textContent: text })));
                if (was !== undefined && was !== count) {
                    row.classList.add(count > was ? "more" : "less");
                }
                body.append(row);
            }
            const head = element("tr", {}, ...["", "original", "yours", "change"].map((text) => element("th", { scope: "col", textContent: text })));
            const ended = found && !before ? `: the check ended after ${launches} of ${found.launches} launches` : ": counts of the whole check";
            const caption = element("caption", {}, element("code", { textContent: kernel }), ended);
            return element("div", { className: "wide" }, element("table", {}, caption, element("thead", {}, head), body));
        });
    }

    function messageItem(message, goTo) {
        const item = element("li", { className: message.severity });
        if (message.line) {
            item.append(button(`line ${message.line}`, () => goTo(message.line)), " ");
        }
        item.append(message.text);
        if (message.rendered.includes("\n")) {
            item.append(folded("the whole report", message.rendered));
        }
        return item;
    }

    function folded(title, text) {
        return element("details", {}, element("summary", { textContent: title }), element("pre", { textContent: text }));
    }

    function show(result, outcome, original, goTo) {
        const verdict = element("p", { className: `verdict is-${outcome.verdict}` });
        verdict.append(element("strong", { textContent: FINAL[outcome.verdict] ?? outcome.verdict }), ` ${outcome.summary}`);
        result.replaceChildren(verdict);
        if (outcome.details.length > 0) {
            const details = outcome.details.join("\n");
            result.append(outcome.verdict === "refused" ? folded("the compiler's log", details) : element("pre", { textContent: details }));
        }
        if (outcome.messages.length > 0) {
            result.append(element("ul", { className: "messages" }, ...outcome.messages.map((message) => messageItem(message, goTo))));
        }
        result.append(...countsTables(outcome, original));
        if (outcome.tables.length > 0) {
            result.append(folded("what the check prints", outcome.tables.join("\n")));
        }
    }

    async function open(figure, file, opener) {
        opener.disabled = true;
        const panel = element("section", { className: "playground" });
        panel.setAttribute("aria-label", `Edit and run ${file}`);
        const result = element("div", { className: "result" });
        result.setAttribute("role", "status");
        panel.append(result);
        figure.after(panel);
        // Elsewhere on a page, arrow keys turn to another chapter, and `s` opens the search.
        panel.addEventListener("keydown", (event) => event.stopPropagation());
        let editor;
        const close = () => {
            editor?.destroy();
            panel.remove();
            opener.disabled = false;
            opener.focus();
        };
        try {
            result.textContent = "The editor is being loaded …";
            const [{ create }, { text: original }] = await Promise.all([import("/.editor.js"), ask("GET", `/.kernels/${file}`)]);
            editor = fill(panel, result, file, original, close, create);
            const lines = figure.querySelector(".lines")?.dataset.lines.match(/\d+/);
            editor.goTo(Number(lines?.[0] ?? 1));
            editor.focus();
        } catch (error) {
            result.replaceChildren(element("p", { className: "verdict is-missing", textContent: String(error.message) }), button("Close", close));
        }
    }

    function fill(panel, result, file, original, close, create) {
        let current = null;
        let shown = null;
        let sliders = null;
        const draw = (outcome) => {
            shown = outcome;
            show(result, outcome, originals.get(file), (line) => {
                editor.goTo(line);
                editor.focus();
            });
        };
        const busy = (isBusy) => {
            runs.disabled = isBusy;
            stops.disabled = !isBusy;
            panel.classList.toggle("busy", isBusy);
        };
        const start = async () => {
            if (runs.disabled) {
                return;
            }
            busy(true);
            editor.mark([]);
            result.replaceChildren(element("p", { textContent: "Waiting …" }));
            try {
                const text = editor.text();
                const outcome = await run(file, text, (id) => (current = id), (now) => {
                    const words = now.stage === "waiting" ? `Waiting for ${now.before + 1} other …` : `Running, ${now.seconds.toFixed(0)} s …`;
                    result.firstChild.textContent = words;
                });
                if (text === original) {
                    originals.set(file, outcome);
                }
                editor.mark(outcome.messages.filter((message) => message.line).map(({ line, severity, text }) => ({ line, severity, message: text })));
                draw(outcome);
                if (!originals.has(file)) {
                    await compare();
                }
            } catch (error) {
                result.replaceChildren(element("p", { className: "verdict is-missing", textContent: String(error.message) }));
            } finally {
                current = null;
                busy(false);
            }
        };
        // Counts of the original, once.
        const compare = async () => {
            const outcome = await run(file, original, (id) => (current = id), () => {});
            if (outcome.verdict !== "stopped" && outcome.verdict !== "missing") {
                originals.set(file, outcome);
                draw(shown);
            }
        };
        const cancel = async () => {
            if (current !== null) {
                await ask("DELETE", `/.runs/${current}`).catch(() => {});
            }
        };
        const toggle = () => {
            const isPressed = changes.getAttribute("aria-pressed") !== "true";
            changes.setAttribute("aria-pressed", String(isPressed));
            editor.showChanges(isPressed);
        };
        const reset = () => {
            editor.setText(original);
            editor.mark([]);
        };
        const runs = button("Run", start, { className: "run", title: "Ctrl-Enter" });
        const stops = button("Cancel", cancel, { disabled: true });
        const changes = button("Changes", toggle);
        changes.setAttribute("aria-pressed", "false");
        const leave = () => {
            cancel();
            close();
        };
        const hint = element("span", { className: "hint", textContent: "Ctrl-Enter runs it; Esc leaves the editor." });
        const bar = element("div", { className: "bar" }, runs, stops, changes, button("Reset", reset), button("Close", leave), hint);
        const place = element("div", { className: "editor" });
        panel.prepend(element("p", { className: "file" }, element("code", { textContent: file })), bar, place);
        const editor = create({
            parent: place,
            text: remembered(file) ?? original,
            original,
            label: `${file}, the text to edit`,
            onRun: start,
            onLeave: () => (runs.disabled ? stops : runs).focus(),
            onChange: (text) => {
                remembered(file, text === original ? null : text);
                sliders?.follow(text);
            },
        });
        sliders = slidersFor(editor, original);
        if (sliders.fieldset) {
            sliders.follow(editor.text());
            place.before(sliders.fieldset);
        }
        result.textContent = "Edit the kernel and run it: the course's own check runs it on the simulator, with the sanitiser.";
        return editor;
    }

    for (const figure of document.querySelectorAll("figure.listing")) {
        for (const link of figure.querySelectorAll("figcaption a.edit")) {
            const opener = button(link.textContent, () => open(figure, link.dataset.kernel, opener), { className: "edit" });
            opener.setAttribute("aria-label", `${link.textContent} ${link.dataset.kernel}`);
            link.replaceWith(opener);
        }
    }
})();
