import { expect, test, vi } from 'vitest';

// Only the functions that handle URLs are tested here; the rest needs a browser.
vi.mock('@/api/queries', () => ({ client: {} }));
vi.mock('@/api/client', () => ({ ApiError: class extends Error {} }));
const { loginPath, nextPath } = await import('./auth');

test('returns to the previous page after login', () => {
  expect(loginPath('/play/brd_1?cell=r1.c1')).toBe('/login?next=%2Fplay%2Fbrd_1%3Fcell%3Dr1.c1');
  expect(nextPath('/play/brd_1?cell=r1.c1')).toBe('/play/brd_1?cell=r1.c1');
  expect(loginPath('/')).toBe('/login');
});

test('returns to the start page instead of another origin or the login page', () => {
  for (const next of [
    null,
    '',
    'https://evil.example',
    '//evil.example',
    '/\\evil.example',
    'javascript:alert(1)',
    '/\t/evil.example',
    '/login',
  ]) {
    expect(nextPath(next)).toBe('/');
  }
});
