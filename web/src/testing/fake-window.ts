/** For tests of what asks the server: Node's own fetch and streams, and as much of a page as they look at. Import it first. */
const href = 'http://here.test/play';
const heard = { addEventListener: () => {}, removeEventListener: () => {} };

Object.assign(globalThis, {
  window: { ...heard, location: { href, origin: new URL(href).origin } },
  document: { ...heard, querySelector: () => null },
});
