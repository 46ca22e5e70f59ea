// Edit & run: an editor below each kernel of the served book, whose text the server compiles, checks and counts on the simulator. In a
// book that nobody serves the links stay as they are, and lead to how to serve it.
"use strict";

(() => {
    const token = document.querySelector('meta[name="warp-token"]')?.content;
    if (!token) {
        return;
    }

    const LOOK_EVERY = 250;
    const MOST_SLIDERS = 8;
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
        const { id } = await ask("POST", "/.runs", { file, text, page: location.pathname });
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
        const found = [];
        for (const { 1: list, index, 0: whole } of text.matchAll(/\bconstexpr\s+(?:int|unsigned(?:\s+int)?)\s+([^;]*);/g)) {
            const begin = index + whole.indexOf(list);
            for (const { 1: constant, 2: value, 0: part, index: at } of list.matchAll(/\b([A-Z][A-Z0-9_]*)\s*=\s*(\d+)\s*(?=,|$)/g)) {
                const from = begin + at + part.search(/\d+\s*$/);
                // Structs may have constants of one name.
                const before = found.filter((other) => other.constant === constant).length;
                const name = before === 0 ? constant : `${constant} (${before + 1})`;
                found.push({ constant, name, value: Number(value), from, to: from + value.length });
            }
        }
        return found.slice(0, MOST_SLIDERS);
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

    // Steps of a block's warps, forwards and backwards: the line, the lanes and what they touch.
    function stepperOf({ kernel, threads, sites, steps, missed }, source, goTo) {
        const warps = [...new Set(steps.map((step) => step.warp))].sort((one, other) => one - other);
        const chosen = element("select", {}, ...warps.map((warp) => element("option", { value: warp, textContent: `warp ${warp}` })));
        chosen.prepend(element("option", { value: "all", textContent: "all warps, in the simulator's order", selected: true }));
        const slider = element("input", { type: "range", min: 0, step: 1, value: 0 });
        slider.setAttribute("aria-label", `step of ${kernel}`);
        const about = element("p", { className: "step" });
        about.setAttribute("aria-live", "polite");
        const lanes = element("ol", { className: "lanes", start: 0 });
        lanes.setAttribute("aria-label", "lanes 0 to 31");
        const cells = Array.from({ length: 32 }, (_, lane) => element("li", { textContent: lane }));
        lanes.append(...cells);
        const banks = element("ol", { className: "lanes banks", hidden: true });
        banks.setAttribute("aria-label", "banks 0 to 31, and the words that each serves");
        const ofBanks = element("p", { textContent: "Banks 0 to 31, and how many different words each serves:", hidden: true });
        const words = Array.from({ length: 32 }, () => element("li"));
        banks.append(...words);
        let shown = steps;
        const has = (mask, lane) => ((mask >>> lane) & 1) === 1;
        const draw = () => {
            const step = shown[slider.value];
            const site = sites[step.site];
            const count = (mask) => cells.filter((_, lane) => has(mask, lane)).length;
            about.replaceChildren(`Step ${Number(slider.value) + 1} of ${shown.length}, warp ${step.warp}: `);
            if (site.line) {
                about.append(button(`line ${site.line}`, () => goTo(site.line)), " ");
            }
            about.append(element("code", { textContent: site.line ? (source[site.line - 1] ?? "").trim() : (site.text ?? "") }), element("br"), element("code", { textContent: site.instruction }), element("br"));
            const parts = [`${count(step.mask)} ${count(step.mask) === 1 ? "lane runs" : "lanes run together"}`];
            if (step.active !== step.mask) {
                const what = { branch: "jump", exit: "end", barrier: "arrive" }[step.event] ?? "take part";
                parts.push(`${count(step.active)} of them ${what}`);
            }
            if (step.event) {
                parts.push(step.event === "branch" && step.active !== 0 && step.active !== step.mask ? "the warp diverges" : step.event);
            }
            const { access } = step;
            if (access) {
                const unit = `${access.has_banks ? "turn" : "sector"}${access.cost === 1 ? "" : "s"}`;
                parts.push(`${access.what}${access.name && ` of ${access.name}`}: ${access.cost} ${unit}, ${access.ideal} at best`);
            }
            about.append(`${parts.join("; ")}.`);
            const touches = new Map((access?.touches ?? []).map(([lane, at, bytes]) => [lane, { at, bytes }]));
            cells.forEach((cell, lane) => {
                const runs = has(step.mask, lane);
                const takes = has(step.active, lane);
                cell.className = takes ? "active" : runs ? "runs" : "off";
                const touch = touches.get(lane);
                cell.title = `lane ${lane}: ${takes ? "takes part" : runs ? "runs, and takes no part" : "does not run"}${touch ? `, bytes ${touch.at} to ${touch.at + touch.bytes - 1}` : ""}`;
                cell.replaceChildren(String(lane), ...(touch ? [element("small", { textContent: touch.at })] : []));
            });
            banks.hidden = !access?.has_banks;
            ofBanks.hidden = banks.hidden;
            words.forEach((cell, bank) => {
                const served = new Set();
                for (const { at, bytes } of touches.values()) {
                    for (let word = Math.floor(at / 4); word * 4 < at + bytes; word += 1) {
                        if (word % 32 === bank) {
                            served.add(word);
                        }
                    }
                }
                cell.className = served.size > 1 ? "conflict" : served.size === 1 ? "active" : "off";
                cell.title = `bank ${bank}: ${served.size} different words`;
                cell.textContent = served.size || "";
            });
        };
        const go = (by) => {
            slider.value = Number(slider.value) + by;
            draw();
        };
        const choose = () => {
            shown = chosen.value === "all" ? steps : steps.filter((step) => step.warp === Number(chosen.value));
            slider.max = shown.length - 1;
            slider.value = 0;
            draw();
        };
        slider.addEventListener("input", draw);
        chosen.addEventListener("change", choose);
        const label = element("label", {}, "of ", chosen);
        const bar = element("div", { className: "bar" }, button("Back", () => go(-1)), button("Forward", () => go(1)), slider, label);
        const size = `${threads.filter((count) => count > 1).join(" × ") || 1} threads`;
        const more = missed > 0 ? ` ${number(missed)} more were not recorded.` : "";
        const head = element("p", {}, element("code", { textContent: kernel }), `: block 0 of an early launch, ${size}.${more} Below each lane, the byte that it touches first.`);
        choose();
        return element("div", {}, head, bar, about, lanes, ofBanks, banks);
    }

    // The page's picture of this kernel, drawn from the trace of the edited one: an SVG, or why there is none.
    function pictureOf({ Ok: svg, Err: reason }) {
        const figure = element("figure", { className: "trace" });
        const drawn = svg && new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
        if (drawn?.tagName === "svg") {
            drawn.querySelectorAll("script, foreignObject").forEach((unwanted) => unwanted.remove());
            figure.append(document.importNode(drawn, true));
        }
        const caption = svg ? "The page's picture, of your kernel." : `No picture: ${reason}.`;
        figure.append(element("figcaption", { textContent: caption }));
        return figure;
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
        result.append(...(outcome.pictures ?? []).map(pictureOf));
        if (outcome.recordings.length > 0) {
            const fold = element("details", { className: "stepper" }, element("summary", { textContent: "Step through a block, warp by warp" }));
            fold.append(...outcome.recordings.map((recording) => stepperOf(recording, outcome.text.split("\n"), goTo)));
            result.append(fold);
        }
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
                    const words = now.stage === "waiting" ? `Waiting for ${now.before + 1} ${now.before === 0 ? "other run" : "other runs"} …` : `Running, ${now.seconds.toFixed(0)} s …`;
                    result.firstChild.textContent = words;
                });
                outcome.text = text;
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
            outcome.text = original;
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
