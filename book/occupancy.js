// The occupancy calculator: fields for what a kernel takes, and how many blocks of it an SM holds. The limits are those of the
// page's table, which the course's Rust code made; the arithmetic is that of common/ptx-sim/src/occupancy.rs, and a test of phase 1
// (tests/it/occupancy.rs) compares the two. Without JavaScript the page names the command that does the same.
"use strict";

const occupancy = (() => {
    const limiters = ["threads", "blocks", "shared memory", "registers"];
    const down = (value, unit) => Math.floor(value / unit) * unit;
    const up = (value, unit) => Math.ceil(value / unit) * unit;

    // What each limiter allows, in their order. `limits` has the table's headings as keys; `block`: threads, shared, registers.
    function bounds(limits, { threads, shared, registers }) {
        const warps = Math.max(1, Math.ceil(threads / 32));
        const ofBlock = up(shared + limits["reserved per block"], limits["shared in units of"]);
        const ofWarp = up(registers * 32, limits["per warp in units of"]);
        // A warp's registers are all in one partition.
        const inPartition = Math.floor(limits.registers / limits.partitions / ofWarp);
        return [
            Math.floor(limits.threads / 32 / warps),
            limits.blocks,
            ofBlock === 0 ? Infinity : Math.floor(limits["shared bytes"] / ofBlock),
            Math.floor(inPartition * limits.partitions / warps),
        ];
    }

    // The most that a block may ask for, so that one more than `blocks` fits; null where asking for less does not help.
    function atMost(limits, { threads }, limiter, blocks) {
        const wanted = blocks + 1;
        if (limiter === "threads") {
            return Math.floor(limits.threads / 32 / wanted) * 32 || null;
        }
        if (limiter === "shared memory") {
            const share = down(limits["shared bytes"] / wanted, limits["shared in units of"]) - limits["reserved per block"];
            return share < 0 ? null : share;
        }
        if (limiter === "registers") {
            const warps = Math.ceil(wanted * Math.max(1, Math.ceil(threads / 32)) / limits.partitions);
            const ofWarp = down(limits.registers / limits.partitions / warps, limits["per warp in units of"]);
            return Math.min(ofWarp / 32, 255) || null;
        }
        return null;
    }

    function residence(limits, block) {
        const fitting = bounds(limits, block);
        const blocks = Math.min(...fitting);
        const used = limiters.filter((_, at) => fitting[at] === blocks);
        return {
            blocks,
            warps: blocks * Math.max(1, Math.ceil(block.threads / 32)),
            maxWarps: limits.threads / 32,
            limiter: used[0],
            oneMore: used.map((limiter) => [limiter, atMost(limits, block, limiter, blocks)]),
        };
    }

    const units = {
        "threads": "threads per block",
        "shared memory": "bytes of shared memory",
        "registers": "registers per thread",
    };

    // The same sentences as the command's.
    function sentences(limits, block) {
        const { blocks, warps, maxWarps, limiter, oneMore } = residence(limits, block);
        const share = Math.round(100 * warps / maxWarps);
        const result = blocks === 0
            ? `Not even one block fits: it needs more ${limiter} than an SM has.`
            : `${blocks} ${blocks === 1 ? "block" : "blocks"}, ${warps} of ${maxWarps} warps (${share} %), limited by ${limiter}.`;
        let more;
        if (warps === maxWarps) {
            more = "The SM is full: more blocks would have to be smaller, and would bring no more warps.";
        } else if (oneMore.every(([, most]) => most !== null)) {
            const needs = oneMore.map(([used, most]) => `at most ${most} ${units[used]}`);
            more = `One more block fits with ${needs.join(" and ")}.`;
        } else if (oneMore.some(([used]) => used === "blocks")) {
            more = "No SM holds more blocks: larger blocks would bring more warps.";
        } else {
            more = "Nothing but smaller blocks admits one more.";
        }
        return [result, more];
    }

    // The limits of each compute capability, from a table of the page.
    function limitsOf(table) {
        const [head, ...rows] = table.rows;
        const headings = [...head.cells].map((cell) => cell.textContent.trim());
        return new Map(rows.map((row) => {
            const [capability, ...numbers] = [...row.cells].map((cell) => cell.textContent.trim());
            return [capability, Object.fromEntries(numbers.map((text, at) => [headings[at + 1], Number(text)]))];
        }));
    }

    function build(place, known) {
        const form = document.createElement("form");
        form.className = "occupancy";
        const field = (text, control) => {
            const label = document.createElement("label");
            label.append(text, control);
            form.append(label);
            return control;
        };
        const number = (text, value, max, min = 1) => {
            const input = document.createElement("input");
            Object.assign(input, { type: "number", inputMode: "numeric", required: true, min, max, value });
            return field(text, input);
        };
        const registers = number("Registers per thread", 128, 255);
        const threads = number("Threads per block", 256, 1024);
        const shared = number("Shared memory per block, bytes", 33792, 1048576, 0);
        const capability = document.createElement("select");
        capability.append(...[...known.keys()].map((name) => new Option(name, name, false, name === "9.0")));
        field("Compute capability", capability);
        const result = document.createElement("output");
        // Read out when it changes.
        result.setAttribute("aria-live", "polite");
        form.append(result);

        const show = () => {
            const wrong = [registers, threads, shared].find((input) => !input.checkValidity());
            if (wrong) {
                result.textContent = `${wrong.parentElement.firstChild.textContent}: a whole number from ${wrong.min} to ${wrong.max}.`;
                return;
            }
            const block = { threads: threads.valueAsNumber, shared: shared.valueAsNumber, registers: registers.valueAsNumber };
            const lines = sentences(known.get(capability.value), block).map((sentence) => {
                const line = document.createElement("span");
                line.textContent = sentence;
                return line;
            });
            result.replaceChildren(...lines);
        };
        form.addEventListener("input", show);
        form.addEventListener("submit", (event) => event.preventDefault());
        // Elsewhere on a page, arrow keys turn to another chapter, and `s` opens the search.
        form.addEventListener("keydown", (event) => event.stopPropagation());
        show();
        place.replaceChildren(form);
    }

    return { residence, sentences, limitsOf, build };
})();

if (typeof document !== "undefined") {
    const place = document.getElementById("occupancy-calculator");
    const table = document.querySelector("#occupancy-limits table");
    if (place && table) {
        occupancy.build(place, occupancy.limitsOf(table));
    }
}
