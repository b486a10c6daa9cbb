// SPDX-License-Identifier: MIT
// Loads the pages of a folder in a browser, and checks what hovering, zooming and keys do: node pages.test.cjs CHROMIUM FOLDER
'use strict';
const assert = require('node:assert');
const path = require('node:path');
const { chromium } = require('playwright-core');

const [executablePath, folder] = process.argv.slice(2);
const args = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Opens a page of the folder, and calls `look(page)`; any error, warning or request of the page is a failure. */
async function open(browser, name, look, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints = [];
  const url = 'file://' + path.resolve(folder, name);
  page.on('pageerror', error => complaints.push(String(error)));
  page.on('console', message => {
    // This test reads pixels back, which the page itself never does.
    if (message.text().includes('willReadFrequently')) return;
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('request', request => {
    if (request.url() !== url && !request.url().startsWith('data:')) complaints.push(`asks for ${request.url()}`);
  });
  await page.goto(url);
  await frame(page);
  await look(page);
  assert.deepStrictEqual(complaints, [], name);
  await context.close();
  console.log(`${name}: done`);
}

/** Waits until the page has drawn what it was asked to draw. */
const frame = page => page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));

const place = (page, name, schedule = 0) => page.evaluate(([name, schedule]) => {
  const timeline = window.pipesched.schedules[schedule];
  for (let op = 0; op < timeline.size; ++op)
    if (timeline.name(op) === name) return { op, ...window.pipesched.opOnScreen(schedule, op) };
  return null;
}, [name, schedule]);

async function hover(page, name, schedule = 0) {
  const at = await place(page, name, schedule);
  await page.mouse.move(at.x, at.y);
  return page.locator('#tip').innerText();
}

const seen = page => page.evaluate(() => ({ from: window.pipesched.state.from, to: window.pipesched.state.to }));
const colorAt = (page, canvas, at) => page.evaluate(([canvas, at]) => {
  const element = document.getElementById(canvas), box = element.getBoundingClientRect();
  const ratio = element.width / box.width;
  return [...element.getContext('2d').getImageData((at.x - box.left) * ratio, (at.y - box.top) * ratio, 1, 1).data];
}, [canvas, at]);

async function hovering(page) {
  const text = await hover(page, '1B0');
  for (const part of ['1B0', 'backward, stage 1, microbatch 0', 'rank 1', 'start 8, end 10, takes 2',
    'waited for 2B0 on rank 2 (gradient), which ended at 8', 'also needs 1F0 (stash)'])
    assert.ok(text.includes(part), `${part} in:\n${text}`);
  const drawn = await page.evaluate(() => {
    const canvas = document.getElementById('front');
    return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(value => value > 0);
  });
  assert.ok(drawn, 'arrows are drawn');
  assert.match(await hover(page, '0F0'), /waited for nothing/);
  await page.mouse.move(5, 5);
  assert.ok(await page.locator('#tip').isHidden());
}

async function zooming(page) {
  const whole = await seen(page);
  const at = await place(page, '2F3');
  await page.mouse.move(at.x, at.y);
  await page.mouse.wheel(0, -600);
  await frame(page);
  const closer = await seen(page);
  assert.ok(closer.to - closer.from < 0.5 * (whole.to - whole.from), 'the wheel zooms in');
  const after = await place(page, '2F3');
  assert.ok(Math.abs(after.x - at.x) < after.width, 'what is under the pointer stays there');
  assert.ok((await hover(page, '2F3')).startsWith('2F3'));
  await page.mouse.down();
  await page.mouse.move(at.x - 100, at.y, { steps: 4 });
  await page.mouse.up();
  assert.ok((await seen(page)).from > closer.from, 'dragging pans');
  await page.keyboard.press('0');
  assert.deepStrictEqual(await seen(page), whole);
  await page.keyboard.press('+');
  assert.ok((await seen(page)).to < whole.to);
  await page.locator('button', { hasText: 'whole step' }).click();
  assert.deepStrictEqual(await seen(page), whole);
}

async function keys(page) {
  await page.keyboard.press('n');
  assert.ok((await page.locator('#tip').innerText()).startsWith('0F0'));
  await page.keyboard.press('n');
  assert.ok((await page.locator('#tip').innerText()).startsWith('0F1'));
  await page.keyboard.press('j');
  assert.match(await page.locator('#status').innerText(), /1F0.*waited for 0F0/);
  await page.keyboard.press('Escape');
  const at = await place(page, '0F0');
  const foot = { x: at.x, y: at.y + at.height / 2 - 2 };
  const before = await colorAt(page, 'back', foot);
  await page.keyboard.press('c');
  await frame(page);
  assert.notDeepStrictEqual(await colorAt(page, 'back', foot), before, 'the critical path is marked');
  assert.strictEqual(await page.locator('button[data-toggle=showCritical]').getAttribute('aria-pressed'), 'true');
  assert.ok(await page.evaluate(() => window.pipesched.schedules[0].critical.length > 0));
  await page.keyboard.press('c');
  await page.keyboard.press('m');
  await frame(page);
  const lower = await place(page, '1F0');
  assert.ok(lower.y > at.y, 'memory curves take room');
  const light = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.keyboard.press('t');
  assert.notStrictEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), light);
  await page.keyboard.press('?');
  assert.ok(await page.locator('#help').isVisible());
}

/** A name from a file is shown as it is, and nothing in it runs. */
async function hostile(page) {
  const heading = page.locator('h1');
  assert.match(await heading.innerText(), /^<\/script><script>document\.title='taken over'<\/script><img .*&amp;$/);
  assert.strictEqual(await page.title(), await heading.innerText());
  assert.strictEqual(await page.locator('img').count(), 0);
  assert.ok((await hover(page, '1B1')).startsWith('1B1'));
  assert.match(await page.locator('#status').innerText(), /^1B1: backward/);
}

async function large(page) {
  assert.ok(await page.evaluate(() => window.pipesched.schedules[0].size > 100000));
  const milliseconds = await page.evaluate(async () => {
    const { look } = window.pipesched, whole = window.pipesched.schedules[0].makespan;
    const begin = performance.now();
    for (let i = 0; i < 20; ++i) {
      look(whole * i / 100, whole * (1 - i / 100));
      await new Promise(done => requestAnimationFrame(done));
    }
    return (performance.now() - begin) / 20;
  });
  console.log(`a frame of 102400 ops: ${milliseconds.toFixed(1)} ms`);
  assert.ok(milliseconds < 250, 'zooming stays smooth, on a busy machine without a graphics card too');
  await page.evaluate(() => window.pipesched.look(0, 40));
  await frame(page);
  assert.ok((await hover(page, '0F3')).startsWith('0F3'));
}

async function main() {
  const browser = await chromium.launch({ executablePath, args });
  await open(browser, 'small.html', hovering);
  await open(browser, 'small.html', zooming);
  await open(browser, 'small.html', keys);
  await open(browser, 'small.html', hovering, { colorScheme: 'dark' });
  await open(browser, 'pairs.html', async page => {
    const pair = await page.evaluate(() => window.pipesched.schedules[0].pairs[0]);
    const names = await page.evaluate(op => [0, 1].map(i => window.pipesched.schedules[0].name(op + i)), pair);
    for (const [i, name] of names.entries()) {
      const at = await page.evaluate(op => window.pipesched.opOnScreen(0, op), pair + i);
      await page.mouse.move(at.x, at.y);
      const text = await page.locator('#tip').innerText();
      assert.ok(text.startsWith(name) && text.includes(`overlapped with ${names[1 - i]}`), text);
    }
  });
  await open(browser, 'moe.html', async page => {
    assert.match(await hover(page, '0DISPATCH_F0'), /all-to-all[^]*waited for 0ATTN_F0/);
  });
  await open(browser, 'compare.html', async page => {
    assert.ok(await page.evaluate(() => window.pipesched.schedules.length > 5));
    assert.ok(await page.locator('#figures svg').count() === 3);
    await page.locator('#view').scrollIntoViewIfNeeded();
    assert.ok((await hover(page, '1F1', 1)).startsWith('1F1'));
  });
  await open(browser, 'one.html', async page => {
    assert.match(await hover(page, '0B0'), /waited for 0F0 on rank 0/);
    for (const key of ['n', 'n', 'p', 'j', 'k', 'c', 'm', '+', 'ArrowRight', '-', '0']) await page.keyboard.press(key);
    await frame(page);
  });
  await open(browser, 'hostile.html', hostile);
  await open(browser, 'hostile.svg', async page => {
    assert.match(await page.evaluate(() => document.querySelector('.title').textContent), /^<\/script>.*&amp;: 2 ranks/);
  });
  await open(browser, 'compare.html', async page => {
    const paper = () => page.evaluate(() => getComputedStyle(document.querySelector('#figures .paper')).fill);
    const dark = await paper();
    await page.keyboard.press('t');
    assert.notStrictEqual(await paper(), dark, 'plots follow the theme');
    await page.locator('summary').click();
    assert.ok(await page.locator('#figures').isHidden(), 'plots can be folded away');
  }, { colorScheme: 'dark' });
  await open(browser, 'large.html', large);
  await open(browser, 'large.svg', async page => {
    assert.strictEqual(await page.evaluate(() => document.documentElement.tagName), 'svg');
  });
  await browser.close();
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
