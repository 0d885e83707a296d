/** Vitest setup: the parts of `window` and `document` that modules read on import, for tests that run in plain Node. */
if (typeof document === 'undefined') {
  const href = 'http://here.test/play';
  const events = { addEventListener: () => {}, removeEventListener: () => {} };

  Object.assign(globalThis, {
    window: { ...events, location: { href, origin: new URL(href).origin } },
    document: { ...events, querySelector: () => null },
  });
}
