// Edits and runs a kernel in a real browser, by Chromium's own protocol over pipes, tries the scripts of a page and looks at it on a phone
// and on a desk, light and dark: `node browser.mjs CHROMIUM PROFILE URL [SCREENSHOTS]`. It prints what it has done, and fails with the first
// thing that is not as it should be. `browser.rs` runs it.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";

const [chromium, profile, url, screenshots] = process.argv.slice(2);
const browser = spawn(
    chromium,
    ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"],
    { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
);
browser.on("error", (error) => fail(`${chromium} cannot be started: ${error.message}`));
browser.on("exit", (code) => fail(`${chromium} ended with ${code}`));

function fail(reason) {
    console.error(reason);
    browser.removeAllListeners("exit");
    browser.kill();
    process.exit(1);
}

const waiting = new Map();
const complaints = [];
let last = 0;
let rest = "";
let session;
browser.stdio[4].setEncoding("utf8").on("data", (data) => {
    const messages = (rest + data).split("\0");
    rest = messages.pop();
    for (const { id, method, params, result, error } of messages.map((message) => JSON.parse(message))) {
        waiting.get(id)?.(error ? Promise.reject(new Error(error.message)) : result);
        waiting.delete(id);
        if (method === "Runtime.exceptionThrown") {
            complaints.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
        } else if (method === "Log.entryAdded" && params.entry.level === "error") {
            complaints.push(`${params.entry.text} ${params.entry.url ?? ""}`);
        } else if (method === "Runtime.consoleAPICalled" && ["error", "assert"].includes(params.type)) {
            complaints.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
        }
    }
});

function send(method, params = {}) {
    last += 1;
    browser.stdio[3].write(JSON.stringify({ id: last, method, params, sessionId: session }) + "\0");
    return new Promise((resolve) => waiting.set(last, resolve));
}

// The value of an expression in the page.
async function page(expression) {
    const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    assert.ok(!exceptionDetails, `${expression}: ${exceptionDetails?.exception?.description}`);
    return result.value;
}

async function until(expression, what) {
    for (const end = Date.now() + 60_000; Date.now() < end; await new Promise((wake) => setTimeout(wake, 50))) {
        if (await page(`Boolean(${expression})`)) {
            return;
        }
    }
    assert.fail(`waited in vain for ${what}; the result is: ${await page("document.querySelector('section.playground')?.innerText")}`);
}

async function press(key, code, modifiers = 0) {
    const event = { key, code: key.length === 1 ? `Key${key.toUpperCase()}` : key, windowsVirtualKeyCode: code, modifiers };
    // A button is pressed by the character, not by the key.
    const typed = key === "Enter" && modifiers === 0 ? { type: "keyDown", text: "\r" } : { type: "rawKeyDown" };
    await send("Input.dispatchKeyEvent", { ...typed, ...event });
    await send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
}

const CONTROL = 2;
const PANEL = "document.querySelector('section.playground')";
const focus = () => page("document.activeElement.className || document.activeElement.textContent");

// Replaces the whole text, as a reader would: everything selected, then typed over.
async function write(text) {
    await page(`${PANEL}.querySelector('.cm-content').focus()`);
    await press("a", 65, CONTROL);
    await send("Input.insertText", { text });
}

async function run(verdict) {
    await page(`${PANEL}.querySelector('.cm-content').focus()`);
    await press("Enter", 13, CONTROL);
    await until(`!${PANEL}.matches('.busy') && ${PANEL}.querySelector('.verdict')`, verdict);
    const found = await page(`${PANEL}.querySelector('.verdict strong')?.textContent ?? ${PANEL}.querySelector('.verdict').textContent`);
    assert.equal(found, verdict, await page(`${PANEL}.querySelector('.result').innerText`));
    console.log(`${verdict}: ${await page(`${PANEL}.querySelector('.verdict').innerText`)}`);
}

const push = (text) => page(`[...${PANEL}.querySelectorAll('button')].find((button) => button.textContent === '${text}').click()`);

// Of the window, or of one element.
async function shot(name, selector) {
    if (screenshots) {
        // The bar at the top of the window would be in the way.
        await page("scrollTo(0, 0)");
        const box = `(({ x, y, width, height }) => ({ x: x + scrollX, y: y + scrollY, width, height, scale: 1 }))(document.querySelector('${selector}').getBoundingClientRect())`;
        const clip = selector && (await page(box));
        const { data } = await send("Page.captureScreenshot", { captureBeyondViewport: true, clip });
        (await import("node:fs")).writeFileSync(`${screenshots}/${name}.png`, Buffer.from(data, "base64"));
    }
}

// What is wrong with the looks of a part of the page, in sentences: something is wider than the window, or a text stands out from its
// ground by less than 4.5 (WCAG 2, 1.4.3). It runs in the page. Pictures are not looked at, nor buttons that cannot be pressed.
function faultsOf(part) {
    const faults = [];
    const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        context.clearRect(0, 0, 1, 1);
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        return context.getImageData(0, 0, 1, 1).data;
    };
    const mixed = (below, above, share) => below.map((value, at) => value + (above[at] - value) * share);
    const painted = (below, colour) => {
        const [red, green, blue, alpha] = rgba(colour);
        return mixed(below, [red, green, blue], alpha / 255);
    };
    // Ground and text of an element on what is below its ancestors, whose opacity counts.
    const colours = ([element, ...inner], below, pseudo) => {
        const own = getComputedStyle(element);
        const ground = painted(below, own.backgroundColor);
        const text = () => [ground, painted(ground, getComputedStyle(element, pseudo).color)];
        return (inner.length > 0 ? colours(inner, ground, pseudo) : text()).map((colour) => mixed(below, colour, Number(own.opacity)));
    };
    const light = (colour) => {
        const [red, green, blue] = colour.map((value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const contrast = (element, pseudo) => {
        const chain = [];
        for (let outer = element; outer; outer = outer.parentElement) {
            chain.unshift(outer);
        }
        const [darker, lighter] = colours(chain, [255, 255, 255], pseudo).map(light).sort((one, other) => one - other);
        return (lighter + 0.05) / (darker + 0.05);
    };
    const scrolls = (element) => element && (getComputedStyle(element).overflowX !== "visible" || scrolls(element.parentElement.closest(`${part} *`)));
    const within = [...document.querySelectorAll(`${part}, ${part} :not(svg *, :disabled)`)].filter((element) => element.checkVisibility());
    if (within.length === 0) {
        faults.push(`there is no ${part}`);
    }
    for (const element of within) {
        const { left, right } = element.getBoundingClientRect();
        const name = `${element.localName}.${element.className} "${element.textContent.trim().slice(0, 40)}"`;
        if ((left < 0 || right > innerWidth + 0.5) && !scrolls(element.parentElement.closest(`${part} *`))) {
            faults.push(`${name} goes from ${left} to ${right} px`);
        }
        const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
        const written = ["::before", "::after"].filter((pseudo) => /\S/.test(getComputedStyle(element, pseudo).content.replace(/^(none|normal|"")$/, "")));
        for (const pseudo of [...(hasText ? [null] : []), ...written]) {
            const found = contrast(element, pseudo);
            if (found < 4.5) {
                faults.push(`${name}${pseudo ?? ""} has a contrast of ${found.toFixed(2)}`);
            }
        }
    }
    if (document.documentElement.scrollWidth > innerWidth) {
        faults.push(`the page is ${document.documentElement.scrollWidth} px wide`);
    }
    return faults;
}

// Looks at a part of the page on a phone and on a desk, by day and by night.
async function look(name, part) {
    const faults = [];
    for (const [theme, scheme] of [["navy", "dark"], ["light", "light"]]) {
        await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
        await until(`document.documentElement.classList.contains('${theme}')`, `the theme ${theme}`);
        for (const width of [400, 1280]) {
            await send("Emulation.setDeviceMetricsOverride", { width, height: 800, deviceScaleFactor: 1, mobile: width === 400 });
            // What slides arrives; the cursor goes on blinking.
            await page("document.getAnimations().filter(({ effect }) => effect.getComputedTiming().endTime < Infinity).forEach((slide) => slide.finish())");
            faults.push(...(await page(`(${faultsOf})('${part}')`)).map((fault) => `at ${width} px, ${theme}: ${fault}`));
            await shot(`${name}-${width}-${theme}`, part);
        }
    }
    await send("Emulation.clearDeviceMetricsOverride");
    await send("Emulation.setEmulatedMedia", { features: [] });
    assert.deepEqual(faults, [], name);
}

const kernel = (body) =>
    `extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned n) {\nunsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n${body}\n}\n`;

try {
    const { targetInfos } = await send("Target.getTargets");
    const { targetId } = targetInfos.find((target) => target.type === "page");
    session = (await send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    await Promise.all(["Page", "Runtime", "Log"].map((domain) => send(`${domain}.enable`)));
    await send("Page.navigate", { url });
    await until("document.readyState === 'complete' && document.querySelector('figcaption button.edit')", "the button");

    const ticked = "document.querySelector('nav.onward input').checked";
    assert.equal(await page(ticked), false);

    await page("document.querySelector('figcaption button.edit').click()");
    await until(`${PANEL}?.querySelector('.cm-content')`, "the editor");
    assert.match(await page(`${PANEL}.querySelector('.cm-content').getAttribute('aria-label')`), /01_vector_add\.cu/);
    await run("Right");
    const counts = `[...${PANEL}.querySelectorAll('td:last-child')].map((cell) => cell.textContent)`;
    assert.ok((await page(counts)).every((text) => text === "same"), "an unchanged kernel costs what it costs");
    await shot("right");

    // The stepper: what a register holds, in each form, back and forth.
    await page(`${PANEL}.querySelector('details.stepper summary').click()`);
    const stepper = (selector) => `${PANEL}.querySelector('details.stepper ${selector}')`;
    const click = (text) => page(`[...${PANEL}.querySelectorAll('details.stepper button')].find((button) => button.textContent === '${text}').click()`);
    const instruction = `${stepper(".step")}.innerText`;
    for (let steps = 0; !(await page(instruction)).includes("%tid.x"); steps += 1) {
        assert.ok(steps < 40, "a step reads %tid.x");
        await click("Forward");
    }
    const lanes = (row) => page(`[...${stepper(`.registers ${row}`)}.querySelectorAll('li')].map((cell) => cell.textContent).join(' ')`);
    const all = Array.from({ length: 32 }, (_, lane) => lane).join(" ");
    assert.equal(await lanes("ol.values"), all, "the lanes have their numbers");
    await click("Watch");
    assert.match(await page("document.activeElement.getAttribute('aria-label')"), /register to watch/);
    assert.equal(await lanes("ol.values"), all);
    await click("Back");
    assert.equal(await lanes("ol.values"), Array(32).fill("–").join(" "), "one step before there is nothing");
    await click("Forward");
    await page(`(() => { const form = ${stepper(".registers div div select")}; form.value = 'hex'; form.dispatchEvent(new Event('change')); })()`);
    assert.match(await lanes("ol.values"), /^0x00000000 0x00000001 /);
    await click("Stop watching");
    const name = await page(`${stepper(".registers .bar select")}.selectedOptions[0].textContent`);
    assert.match(name, /^%\S+ – /, "registers are offered by name and place");
    await look("registers", "section.playground");

    // One size of the problem: its counts, and the server's word on one that it does not take.
    const resize = (n) => page(`(() => { const exact = ${PANEL}.querySelector('.problem input[type=number]'); exact.value = ${n}; exact.dispatchEvent(new Event('input')); })()`);
    await resize(1000);
    assert.equal(await page(`${PANEL}.querySelector('.problem input[type=checkbox]').checked`), true);
    await run("Right");
    assert.match(await page(`${PANEL}.querySelector('caption').textContent`), /n = 1,000/);
    assert.equal(await page(`[...${PANEL}.querySelectorAll('tbody tr')].find((row) => row.innerText.startsWith('launches')).cells[2].textContent`), "1");
    complaints.length = 0;
    await resize(99999999);
    await run("n may be 0 to 65536 here, not 99999999");
    // The browser notes that the server refused.
    assert.ok(complaints.every((text) => text.includes("422")), complaints.join("; "));
    complaints.length = 0;
    await page(`${PANEL}.querySelector('.problem input[type=checkbox]').click()`);

    // Without a mouse: Escape leaves the editor, Tab goes on.
    await page(`${PANEL}.querySelector('.cm-content').focus()`);
    await press("Escape", 27);
    assert.match(await focus(), /run/);
    await press("Tab", 9);
    assert.match(await focus(), /Changes/);
    await press("Enter", 13);
    assert.equal(await page("document.activeElement.getAttribute('aria-pressed')"), "true");
    await press("Enter", 13);

    await write(kernel("if (i < n) c[i] = a[i] - b[i];"));
    await run(process.env.NO_COMPILER ? "Not run" : "Wrong");
    if (!process.env.NO_COMPILER) {
        await write(kernel("float x = ((volatile const float *)a)[i]; if (i < n) c[i] = x + b[i];"));
        await run("Broken rules");
        assert.ok(await page(`${PANEL}.querySelector('.cm-lint-marker-error') !== null`), "the line is marked");
        await page(`${PANEL}.querySelector('.messages button').click()`);
        assert.match(await focus(), /cm-content/);
        await page(`${PANEL}.querySelector('[aria-pressed]').click()`);
        await until(`${PANEL}.querySelector('.cm-changedLine, .cm-deletedChunk')`, "the changes");
        await look("found", "section.playground");
        await page(`${PANEL}.querySelector('[aria-pressed]').click()`);

        await write(kernel("if (i < n) c[i] = a[i] + b[i]"));
        await run("Does not compile");
        assert.ok(await page(`${PANEL}.querySelector('.cm-lint-marker-error') !== null`), "the compiler's line is marked");

        await write(kernel("for (volatile unsigned k = 0; k < 2; ) if (i < n) c[i] = a[i] + b[i];"));
        await press("Enter", 13, CONTROL);
        await until(`${PANEL}.querySelector('.result').innerText.startsWith('Running')`, "an endless run");
        await push("Cancel");
        await until(`${PANEL}.querySelector('.verdict')?.innerText.includes('Cancelled')`, "the end of a cancelled run");
    }

    // The exercise: a hint, wrong, a finding at its line, right; the text stays here.
    const solve = "document.querySelector('button.solve')";
    await push("Close");
    await page(`${solve}.click()`);
    await until(`${PANEL}?.querySelector('.cm-content')`, "the exercise's editor");
    await push("Hint 1 of 3");
    assert.match(await page(`${PANEL}.querySelector('.hints').innerText`), /257 elements/);
    if (!process.env.NO_COMPILER) {
        await run("Not yet");
        await write(kernel("c[i] = a[i] + b[i];"));
        await run("Not yet");
        assert.match(await page(`${PANEL}.querySelector('.parts .error').innerText`), /clean 0\/2 .*out-of-bounds/);
        assert.ok(await page(`${PANEL}.querySelector('.cm-lint-marker-error') !== null`), "the finding's line is marked");
        await look("exercise-wrong", "section.playground");
        await write(kernel("if (i < n) c[i] = a[i] + b[i];"));
        await run("Passed");
        assert.ok(await page(`${PANEL}.querySelector('figure.trace svg') !== null`), "the case is drawn");
        await look("exercise-right", "section.playground");
    }
    await write("// my answer\n");
    await push("Close");
    await send("Page.reload");
    await until(`document.readyState === 'complete' && ${solve}`, "the exercise again");
    await page(`${solve}.click()`);
    await until(`${PANEL}?.querySelector('.cm-content')`, "the exercise's editor again");
    assert.match(await page(`${PANEL}.querySelector('.cm-content').innerText`), /my answer/);
    await push("Save");
    await until(`${PANEL}.querySelector('.result').innerText.startsWith('Saved in')`, "the file");
    assert.equal(await page("Object.keys(localStorage).find((key) => key.includes('exercise.cu')) ?? null"), null, "only the file has it now");
    await push("Close");

    // A page is read once its end was seen, or when the reader says so; the sidebar shows it.
    await page("document.querySelector('nav.onward').scrollIntoView()");
    await until(ticked, "the mark of a page that was read");
    assert.equal(await page("[...document.querySelectorAll('.sidebar .chapter a.read')].map((link) => link.innerText).join()"), await page("document.querySelector('.sidebar .chapter a.on-weekend').innerText"));
    await page("document.querySelector('nav.onward input').click()");
    assert.equal(await page("document.querySelectorAll('.sidebar .chapter a.read').length"), 0);
    await page("document.querySelector('nav.onward input').click()");
    await send("Page.reload");
    await until(`document.readyState === 'complete' && document.querySelector('.sidebar .chapter a.read')`, "the mark after a reload");
    assert.ok(await page("document.querySelector('.map a.read') !== null"), "the map shows it too");
    // Who says that it is unread is not overruled by its end.
    await page("document.querySelector('nav.onward input').click()");
    for (const place of ["0", "document.body.scrollHeight"]) {
        await page(`scrollTo(0, ${place}); new Promise((seen) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(seen)), 50))`);
    }
    assert.equal(await page(ticked), false);
    await page("document.querySelector('nav.onward input').click()");
    await look("map", ".map");
    await page("document.querySelector('#mdbook-sidebar-toggle[aria-expanded=false]')?.click()");
    await look("sidebar", ".sidebar .chapter");

    // A reload keeps the text, a reset brings the original back.
    await send("Page.reload");
    await until("document.querySelector('figcaption button.edit') && !document.querySelector('section.playground')", "the page again");
    await page("document.querySelector('figcaption button.edit').click()");
    await until(`${PANEL}?.querySelector('.cm-content')`, "the editor again");
    assert.ok(!(await page(`${PANEL}.querySelector('.cm-content').innerText`)).includes("Vector addition"));
    await push("Reset");
    assert.ok((await page(`${PANEL}.querySelector('.cm-content').innerText`)).includes("Vector addition"));

    // A phone has no second scrollbar, and paper no editor.
    await send("Emulation.setDeviceMetricsOverride", { width: 400, height: 800, deviceScaleFactor: 1, mobile: true });
    assert.ok(await page("document.documentElement.scrollWidth <= 400"), "the page is as wide as a phone");
    await send("Emulation.setEmulatedMedia", { media: "print" });
    assert.equal(await page(`getComputedStyle(${PANEL}).display`), "none");
    await send("Emulation.setEmulatedMedia", { media: "" });

    // What is wider than the phone can be scrolled by the keyboard.
    await until("document.querySelector('main pre > code').tabIndex === 0", "a listing that takes the focus");

    // One field for the reader's prediction, before ours, and not between a question and its answer.
    assert.equal(await page("document.querySelectorAll('label.prediction').length"), 1);
    assert.equal(await page("document.querySelector('label.prediction').nextElementSibling.id"), "prediction");
    await page("document.querySelector('form.question input').value = '5'; document.querySelector('form.question').requestSubmit()");
    assert.equal(await page("document.querySelector('form.question output').textContent"), "No, not 5.");
    assert.equal(await page("document.querySelector('main details').open"), false);
    await page("document.querySelector('form.question input').value = '4'; document.querySelector('form.question').requestSubmit()");
    assert.equal(await page("document.querySelector('main details').open"), true);

    // On paper answers are open and a dark theme is light; afterwards both are as they were.
    const looks = "[document.querySelector('main details').open, ...['light', 'navy'].map((theme) => document.documentElement.classList.contains(theme))]";
    await page("document.querySelector('main details').open = false; document.documentElement.classList.replace('light', 'navy')");
    await page("window.dispatchEvent(new Event('beforeprint'))");
    assert.deepEqual(await page(looks), [true, true, false]);
    await page("window.dispatchEvent(new Event('afterprint'))");
    assert.deepEqual(await page(looks), [false, false, true]);

    await push("Close");
    assert.equal(await page(`${PANEL} === null`), true);
    assert.deepEqual(complaints, []);
    console.log("no complaints");
    browser.removeAllListeners("exit");
    browser.kill();
    process.exit(0);
} catch (error) {
    fail(`${error.message}\nthe page complained of: ${complaints.join("; ") || "nothing"}`);
}
