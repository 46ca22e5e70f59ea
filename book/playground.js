// Edit & run: an editor below each kernel of the served book, whose text the server compiles, checks and counts on the simulator; and one
// below each exercise, whose text the grader judges. In a book that nobody serves the links stay as they are, and lead to how to serve it.
"use strict";

(() => {
    if (!document.querySelector('meta[name="warp-served"]')) {
        return;
    }
    const token = tokenOfThisServer();

    const LOOK_EVERY = 250;
    const MOST_SLIDERS = 8;
    const FINAL = { right: "Right", found: "Broken rules", wrong: "Wrong", refused: "Does not compile", stopped: "Stopped", missing: "Not run" };
    // Outcomes of the kernels as they are in the course, by file and sizes.
    const originals = new Map();
    // Registers that the reader watches, by kernel: names, and how each is shown.
    const watchedOf = new Map();
    const FORMS = { auto: "as its type", signed: "signed integer", unsigned: "unsigned integer", float: "float", hex: "hexadecimal" };

    // The address that the command prints brings the token. It stays in this browser, which gives it to no other server.
    function tokenOfThisServer() {
        const given = /^#token=([0-9a-f]+)$/.exec(location.hash)?.[1];
        if (given) {
            localStorage.setItem("warp-token", given);
            history.replaceState(null, "", location.pathname + location.search);
        }
        return localStorage.getItem("warp-token") ?? "";
    }

    async function ask(method, path, body) {
        const response = await fetch(path, {
            method,
            cache: "no-store",
            headers: { "x-warp-token": token, ...(body !== undefined && { "content-type": "application/json" }) },
            body: typeof body === "string" ? body : JSON.stringify(body),
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
    async function run(asked, onStart, onStage) {
        const { id } = await ask("POST", "/.runs", asked);
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

    const stageInWords = ({ stage, before, seconds }) =>
        stage === "waiting" ? `Waiting for ${before + 1} ${before === 0 ? "other run" : "other runs"} …` : `Running, ${seconds.toFixed(0)} s …`;

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

    function remembered(file, text, kind) {
        try {
            const storage = window[kind];
            if (text === undefined) {
                return storage.getItem(`kernel:${file}`);
            }
            if (text === null) {
                storage.removeItem(`kernel:${file}`);
            } else {
                storage.setItem(`kernel:${file}`, text);
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

    function slidersFor(editing, original) {
        const fieldset = element("fieldset", { className: "sliders" }, element("legend", { textContent: "Constants of this file" }));
        const sliders = constantsOf(original).map(({ name, value }) => {
            const choices = choicesAround(value);
            const input = element("input", { type: "range", min: 0, max: choices.length - 1, step: 1, value: choices.indexOf(value) });
            const output = element("output", { textContent: value });
            input.addEventListener("input", () => {
                const here = constantsOf(editing().text()).find((constant) => constant.name === name);
                if (here) {
                    editing().replace(here.from, here.to, String(choices[input.value]));
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
        return { fieldset: sliders.length > 0 ? fieldset : "", follow };
    }

    // One size of the problem in place of those of the check; `chosen` is undefined for the check's own.
    function problemOf(sizes) {
        const one = element("input", { type: "checkbox" });
        const fieldset = element("fieldset", { className: "sliders problem" }, element("legend", { textContent: "Problem size" }));
        fieldset.append(element("label", {}, one, " one size, instead of all sizes of the check"));
        const numbers = sizes.map(({ name, least, most, usual }) => {
            const limits = { min: least, max: most, step: 1, value: usual };
            const [slider, exact] = ["range", "number"].map((type) => element("input", { type, ...limits }));
            slider.setAttribute("aria-label", `${name}, ${least} to ${most}`);
            for (const [from, to] of [[slider, exact], [exact, slider]]) {
                from.addEventListener("input", () => {
                    to.value = from.value;
                    one.checked = true;
                });
            }
            fieldset.append(element("label", {}, `${name} = `, exact), slider);
            return exact;
        });
        const chosen = () => (one.checked ? numbers.map((exact) => Number(exact.value)) : undefined);
        const inWords = (values) => values?.map((value, at) => `${sizes[at].name} = ${number(value)}`).join(", ");
        return { fieldset: sizes.length > 0 ? fieldset : "", chosen, inWords };
    }

    const number = (value) => value.toLocaleString("en-GB");

    function change(before, after) {
        if (before === after) {
            return "same";
        }
        const times = (after / before).toPrecision(3);
        // A few more, or less.
        const few = `${after > before ? "+" : "−"} ${number(Math.abs(after - before))}`;
        return before === 0 ? "new" : Number(times) === 1 ? few : `× ${times}`;
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
            const whole = mine.sizes ? `: counts at ${mine.sizes}` : ": counts of the whole check";
            const ended = found && !before ? `: the check ended after ${launches} of ${found.launches} launches` : whole;
            const caption = element("caption", {}, element("code", { textContent: kernel }), ended);
            return element("div", { className: "wide" }, element("table", {}, caption, element("thead", {}, head), body));
        });
    }

    function messageItem(message, goTo) {
        const item = element("li", { className: message.severity });
        if (message.line) {
            item.append(button(`line ${message.line}`, () => goTo(message.line)), " ");
        }
        item.append(...sentences(message.text));
        if (message.rendered.includes("\n")) {
            item.append(folded("the whole report", reportOf(message.rendered)));
        }
        return item;
    }

    // The lanes' bits in what the server sends: `a+d*n` is n lanes from a on, each with d more than the one before.
    function bitsOf({ lanes, bits }) {
        const all = bits.split(" ").flatMap((part) => {
            const [first, by = "0", count = "1"] = part.split(/[+*]/);
            return Array.from({ length: Number(count) }, (_, at) => BigInt.asUintN(64, BigInt(`0x${first}`) + BigInt(at) * BigInt(`0x${by}`)));
        });
        return Array.from({ length: 32 }, (_, lane) => ((lanes >>> lane) & 1 ? all.shift() : undefined));
    }

    // A float of 16, 32 or 64 bits.
    function floatOf(bits, size, isBrain) {
        const view = new DataView(new ArrayBuffer(8));
        if (size === 64) {
            view.setBigUint64(0, bits);
            return view.getFloat64(0);
        }
        const low = Number(bits);
        if (size === 16 && !isBrain) {
            const [exponent, fraction] = [(low >> 10) & 31, low & 1023];
            const size = exponent === 31 ? (fraction ? NaN : Infinity) : exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
            return low >> 15 ? -size : size;
        }
        view.setUint32(0, size === 16 ? low << 16 : low);
        return view.getFloat32(0);
    }

    // Bits of a lane in words: short ones for its cell, exact ones for its title.
    function inWords(bits, type, form) {
        if (type === "pred") {
            return bits ? ["true", "true"] : ["false", "false"];
        }
        const [, size, pairs] = type.match(/(\d+)(x2)?/);
        const width = Number(size) * (pairs ? 2 : 1);
        const isFloat = /^(f|bf|tf)/.test(type);
        // Untyped bits that are many are no number of anything.
        const isUntyped = type.startsWith("b") && !isFloat && bits >> 24n;
        const meant = isFloat ? "float" : type.startsWith("s") ? "signed" : isUntyped || bits >> 32n ? "hex" : "unsigned";
        const as = form === "auto" ? meant : form;
        if (as === "float") {
            const unit = isFloat ? Number(size) : Math.max(width, 16);
            const parts = pairs && isFloat ? [bits & 0xffffn, bits >> 16n] : [bits];
            const values = parts.map((part) => floatOf(part, unit, type.startsWith("bf")));
            return [values.map((value) => Number(value.toPrecision(4))).join(", "), values.join(", ")];
        }
        const digits = form === "hex" ? width / 4 : 1;
        const text = as === "hex" ? `0x${bits.toString(16).padStart(digits, "0")}` : String(as === "signed" ? BigInt.asIntN(width, bits) : bits);
        return [text, text];
    }

    // Registers at a step: those that it writes, and those that the reader watches.
    function registersOf({ kernel, registers, registers_until: until, sites, steps }, source, goTo) {
        const writes = registers.map(() => []);
        steps.forEach((step, at) => step.writes?.forEach((write) => writes[write.register].push({ at, warp: step.warp, write })));
        // What each lane of a warp has after a step, and in which step it came there.
        const lanesAt = (register, warp, now) => {
            const lanes = Array(32);
            for (const found of writes[register].filter((one) => one.warp === warp && one.at <= now).reverse()) {
                found.bits ??= bitsOf(found.write);
                found.bits.forEach((bits, lane) => {
                    lanes[lane] ??= bits === undefined ? undefined : { bits, type: found.write.ty, at: found.at };
                });
                if (!lanes.includes(undefined)) {
                    break;
                }
            }
            return lanes;
        };
        const sourceOf = ({ site }) => {
            const { line, instruction } = sites[site];
            return line ? `line ${line}: ${(source[line - 1] ?? "").trim()}` : instruction;
        };
        const watched = watchedOf.get(kernel) ?? watchedOf.set(kernel, new Map()).get(kernel);
        const [own, kept] = [element("div"), element("div")];
        let shown = { step: steps[0], at: 0 };
        const rowOf = (register, form, ...controls) => {
            const { name, site } = registers[register];
            const cells = Array.from({ length: 32 }, () => element("li"));
            const list = element("ol", { className: "lanes values", start: 0 }, ...cells);
            list.setAttribute("aria-label", `${name} in lanes 0 to 31`);
            const { line } = sites[site];
            const where = line ? button(`line ${line}`, () => goTo(line), { title: sourceOf({ site }) }) : "";
            const row = element("div", {}, element("p", {}, element("code", { textContent: name }), " ", where, " ", ...controls), list);
            const draw = () => {
                const lanes = lanesAt(register, shown.step.warp, shown.at);
                cells.forEach((cell, lane) => {
                    const has = lanes[lane];
                    const [short, exact] = has ? inWords(has.bits, has.type, form()) : ["–", "nothing yet"];
                    cell.className = has?.at === shown.at ? "active" : has ? "" : "off";
                    cell.title = `lane ${lane}: ${exact}${has ? `, ${has.type} from step ${has.at + 1} of all` : ""}`;
                    cell.textContent = short;
                });
            };
            draw();
            return { row, draw };
        };
        let rows = [];
        const drawKept = () => {
            const known = registers.map(({ name }) => name);
            const names = [...watched.keys()].filter((name) => known.includes(name));
            rows = names.map((name) => {
                const form = element("select", {}, ...Object.entries(FORMS).map(([value, textContent]) => element("option", { value, textContent })));
                form.value = watched.get(name);
                form.setAttribute("aria-label", `how ${name} is shown`);
                const ends = button("Stop watching", () => {
                    watched.delete(name);
                    draw();
                    drawKept();
                    choice.focus();
                });
                ends.setAttribute("aria-label", `Stop watching ${name}`);
                const made = rowOf(known.indexOf(name), () => form.value, form, " ", ends);
                form.addEventListener("change", () => {
                    watched.set(name, form.value);
                    made.draw();
                });
                return made;
            });
            kept.replaceChildren(...rows.map(({ row }) => row));
        };
        const watch = (name) => {
            watched.set(name, watched.get(name) ?? "auto");
            drawKept();
            draw();
        };
        const draw = (step = shown.step, at = shown.at) => {
            shown = { step, at };
            const written = (step.writes ?? []).filter(({ register }) => !watched.has(registers[register].name));
            const news = written.slice(0, 4).map(({ register }) => {
                const { name } = registers[register];
                const more = button("Watch", () => {
                    watch(name);
                    choice.focus();
                });
                more.setAttribute("aria-label", `Watch ${name}`);
                return rowOf(register, () => "auto", " as the step leaves it ", more).row;
            });
            own.replaceChildren(...news);
            if (written.length > 4) {
                own.append(element("p", { textContent: `It writes ${written.length - 4} more registers: watch those that you want to see.` }));
            }
            if (at >= until) {
                own.append(element("p", { textContent: `Registers are recorded up to step ${number(until)} of all only.` }));
            }
            rows.forEach((row) => row.draw());
        };
        const option = (register) => element("option", { value: register.name, textContent: `${register.name} – ${sourceOf(register)}` });
        const choice = element("select", {}, ...registers.map(option));
        choice.setAttribute("aria-label", "register to watch, and where it is first written");
        const bar = element("div", { className: "bar" }, choice, button("Watch this register", () => watch(choice.value)));
        const about = element("p", { textContent: "Registers of the step's warp, lanes 0 to 31. Coloured: written by this step. A dash: not written yet." });
        drawKept();
        return { part: registers.length > 0 ? element("div", { className: "registers" }, about, bar, kept, own) : "", draw };
    }

    // Steps of a block's warps, forwards and backwards: the line, the lanes and what they touch.
    function stepperOf(recording, source, goTo) {
        const { kernel, threads, sites, steps, missed } = recording;
        const registers = registersOf(recording, source, goTo);
        const places = new Map(steps.map((step, at) => [step, at]));
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
            registers.draw(step, places.get(step));
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
        return element("div", {}, head, bar, about, lanes, ofBanks, banks, registers.part);
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

    // A compiler's or sanitiser's report, line by line: its sentences wrap, and marks stay below the code that they mark.
    function reportOf(text) {
        const line = (textContent) => element("span", { className: /^( *= |[^\s\d])/.test(textContent) ? "said" : "", textContent: `${textContent}\n` });
        return element("pre", { className: "report" }, ...text.split("\n").map(line));
    }

    function folded(title, content) {
        return element("details", {}, element("summary", { textContent: title }), content);
    }

    // Sentences with code between backticks.
    const sentences = (text) => text.split("`").map((part, at) => (at % 2 === 1 ? element("code", { textContent: part }) : part));

    const verdictOf = ({ verdict, summary }, word) =>
        element("p", { className: `verdict is-${verdict}` }, element("strong", { textContent: word }), `: ${summary}`);

    const complaintOf = ({ message }) => element("p", { className: "verdict is-missing", textContent: message });

    function show(result, outcome, original, goTo) {
        result.replaceChildren(verdictOf(outcome, FINAL[outcome.verdict] ?? outcome.verdict));
        if (outcome.details.length > 0) {
            const details = outcome.details.join("\n");
            result.append(outcome.verdict === "refused" ? folded("the compiler's log", reportOf(details)) : element("pre", { textContent: details }));
        }
        if (outcome.messages.length > 0) {
            result.append(element("ul", { className: "messages" }, ...outcome.messages.map((message) => messageItem(message, goTo))));
        }
        result.append(...countsTables(outcome, original));
        result.append(...(outcome.pictures ?? []).map(pictureOf));
        if (outcome.recordings.length > 0) {
            const fold = element("details", { className: "stepper" }, element("summary", { textContent: "Step through a block, warp by warp" }));
            // The result is a status, whose changes are read out; of a step only its sentence is.
            fold.setAttribute("aria-live", "off");
            fold.append(...outcome.recordings.map((recording) => stepperOf(recording, outcome.text.split("\n"), goTo)));
            result.append(fold);
        }
        if (outcome.tables.length > 0) {
            result.append(folded("what the check prints", element("pre", { textContent: outcome.tables.join("\n") })));
        }
    }

    // A panel after an element of the page, for an editor that `load` makes in it.
    async function open(after, name, opener, load) {
        opener.disabled = true;
        const panel = element("section", { className: "playground" });
        panel.setAttribute("aria-label", `Edit and run ${name}`);
        const result = element("div", { className: "result" });
        result.setAttribute("role", "status");
        panel.append(result);
        after.after(panel);
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
            const { create } = await import("/.editor.js");
            editor = await load({ panel, result, close, create });
            editor.focus();
        } catch (error) {
            result.replaceChildren(complaintOf(error), button("Close", close));
        }
    }

    // An editor with its buttons, for one run at a time, which can be cancelled: of what `asking` makes of the text. `draw` shows the
    // outcome, and may run something else. A text that is not `known` is kept in `storage`.
    function workbench({ panel, result, close, create }, { verb, file, label, text, original, known, storage, asking, draw, buttons, above, follow }) {
        let current = null;
        const say = (text) => result.replaceChildren(element("p", { textContent: text }));
        const runs = (asked, onStage = () => {}) => run(asked, (id) => (current = id), onStage);
        const busy = (isBusy) => {
            starts.disabled = isBusy;
            stops.disabled = !isBusy;
            panel.classList.toggle("busy", isBusy);
        };
        const start = async () => {
            if (starts.disabled) {
                return;
            }
            busy(true);
            editor.mark([]);
            say("Waiting …");
            try {
                const asked = asking(editor.text());
                const outcome = await runs(asked, (now) => say(stageInWords(now)));
                editor.mark(outcome.messages.filter(({ line }) => line).map(({ line, severity, text }) => ({ line, severity, message: text })));
                await draw(outcome, asked, runs);
            } catch (error) {
                result.replaceChildren(complaintOf(error));
            } finally {
                current = null;
                busy(false);
            }
        };
        const cancel = async () => {
            if (current !== null) {
                await ask("DELETE", `/.runs/${current}`).catch(() => {});
            }
        };
        const reset = () => {
            editor.setText(original);
            editor.mark([]);
        };
        const leave = () => {
            cancel();
            close();
        };
        const starts = button(verb, start, { className: "run", title: "Ctrl-Enter" });
        const stops = button("Cancel", cancel, { disabled: true });
        const keys = element("span", { className: "hint", textContent: `Ctrl-Enter ${verb.toLowerCase()}s it; Esc leaves the editor.` });
        const bar = element("div", { className: "bar" }, starts, stops, ...buttons, button("Reset", reset), button("Close", leave), keys);
        const place = element("div", { className: "editor" });
        panel.prepend(element("p", { className: "file" }, element("code", { textContent: file })), bar, ...above, place);
        const editor = create({
            parent: place,
            text: remembered(file, undefined, storage) ?? text,
            original,
            label,
            onRun: start,
            onLeave: () => (starts.disabled ? stops : starts).focus(),
            onChange: (text) => {
                remembered(file, text === known() ? null : text, storage);
                follow?.(text);
            },
        });
        return { editor, say };
    }

    // The editor of a kernel, at the first line that the page shows.
    async function kernel(figure, file, frame) {
        const { text: original, sizes } = await ask("GET", `/.kernels/${file}`);
        const problem = problemOf(sizes);
        const sliders = slidersFor(() => editor, original);
        const goTo = (line) => {
            editor.goTo(line);
            editor.focus();
        };
        const draw = async (outcome, asked, runs) => {
            const key = `${file} ${asked.sizes ?? ""}`;
            Object.assign(outcome, { text: asked.text, sizes: problem.inWords(asked.sizes) });
            const drawBeside = (known) => {
                if (known && !["stopped", "missing"].includes(known.verdict)) {
                    originals.set(key, known);
                }
                show(frame.result, outcome, originals.get(key), goTo);
            };
            drawBeside(asked.text === original ? outcome : undefined);
            // Counts of the original at the same sizes, once.
            if (asked.text !== original && !originals.has(key)) {
                drawBeside(await runs({ ...asked, text: original }));
            }
        };
        const toggle = () => {
            const isPressed = changes.getAttribute("aria-pressed") !== "true";
            changes.setAttribute("aria-pressed", String(isPressed));
            editor.showChanges(isPressed);
        };
        const changes = button("Changes", toggle);
        changes.setAttribute("aria-pressed", "false");
        const { editor, say } = workbench(frame, {
            verb: "Run",
            file,
            label: `${file}, the text to edit`,
            text: original,
            original,
            known: () => original,
            storage: "sessionStorage",
            asking: (text) => ({ file, text, sizes: problem.chosen(), page: location.pathname }),
            draw,
            buttons: [changes],
            above: [sliders.fieldset, problem.fieldset],
            follow: sliders.follow,
        });
        sliders.follow(editor.text());
        say("Edit the kernel and run it: the course's own check runs it on the simulator, with the sanitiser.");
        const lines = figure.querySelector(".lines")?.dataset.lines.match(/\d+/);
        editor.goTo(Number(lines?.[0] ?? 1));
        return editor;
    }

    // The points of each part of a verdict, with the reason.
    function partItem({ name, points, of, detail, asks }) {
        const [first, ...rest] = detail.split("\n");
        const item = element("li", { className: points === of ? "good" : "error" });
        item.append(element("strong", { textContent: `${name} ${points}/${of}` }), " – ", ...sentences(first));
        if (rest.length > 0) {
            item.append(reportOf(rest.join("\n")));
        }
        if (asks) {
            item.append(element("p", { className: "asks" }, ...sentences(asks)));
        }
        return item;
    }

    // The editor of an exercise: the reader's text stays in this browser, and goes to the file at their wish.
    async function exercise(id, frame) {
        const { file, skeleton, text: onDisk, hints } = await ask("GET", `/.exercises/${id}`);
        let saved = onDisk;
        const draw = (outcome) => {
            const verdict = verdictOf(outcome, outcome.verdict === "right" ? "Passed" : "Not yet");
            const printed = outcome.details.map((text) => element("pre", { textContent: text }));
            const drawn = (outcome.pictures ?? []).map(pictureOf);
            drawn.forEach((figure) => (figure.lastChild.textContent = outcome.tables[0]));
            frame.result.replaceChildren(verdict, element("ul", { className: "parts" }, ...outcome.parts.map(partItem)), ...printed, ...drawn);
        };
        const hint = () => {
            list.append(element("li", {}, ...sentences(hints[list.children.length])));
            const given = list.children.length;
            hinter.disabled = given === hints.length;
            hinter.textContent = hinter.disabled ? "No more hints" : `Hint ${given + 1} of ${hints.length}`;
        };
        const save = async () => {
            try {
                const text = editor.text();
                await ask("PUT", `/.exercises/${id}`, text);
                saved = text;
                // From here on the file is what counts, whoever edits it.
                remembered(file, null, "localStorage");
                say(`Saved in ${file}.`);
            } catch (error) {
                say(error.message);
            }
        };
        const hinter = button(`Hint 1 of ${hints.length}`, hint);
        const list = element("ol", { className: "hints" });
        const { editor, say } = workbench(frame, {
            verb: "Check",
            file,
            label: `${file}, your answer`,
            text: onDisk,
            original: skeleton,
            known: () => saved,
            storage: "localStorage",
            asking: (text) => ({ exercise: id, text }),
            draw,
            buttons: [hinter, button("Save", save, { title: `Write it to ${file}` })],
            above: [list],
        });
        say("Fill the gap and check it: the same grader, the same points as on the command line.");
        return editor;
    }

    // Each exercise has its skeleton below its heading.
    for (const heading of document.querySelectorAll('h3[id^="exercise-"]')) {
        const id = heading.id.slice("exercise-".length);
        let skeleton = heading.nextElementSibling;
        while (skeleton && !skeleton.matches("pre, h1, h2, h3, details")) {
            skeleton = skeleton.nextElementSibling;
        }
        if (skeleton?.matches("pre")) {
            const load = (frame) => exercise(id, frame);
            const opener = button("Solve it here", () => open(skeleton, `exercise ${id}`, opener, load), { className: "solve" });
            skeleton.after(opener);
        }
    }

    for (const figure of document.querySelectorAll("figure.listing")) {
        for (const link of figure.querySelectorAll("figcaption a.edit")) {
            const load = (frame) => kernel(figure, link.dataset.kernel, frame);
            const opener = button(link.textContent, () => open(figure, link.dataset.kernel, opener, load), { className: "edit" });
            opener.setAttribute("aria-label", `${link.textContent} ${link.dataset.kernel}`);
            link.replaceWith(opener);
        }
    }
})();
