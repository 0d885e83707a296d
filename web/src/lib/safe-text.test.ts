import { describe, expect, it } from 'vitest';
import { safeLink, decodeEntities, safeExact, isInlineImage, safeProse, isStoredFile, namesHost } from './safe-text';

describe('safe links', () => {
  it.each([
    ['https://a.example/x?y=1#z', { href: 'https://a.example/x?y=1#z', host: 'a.example' }],
    [' http://a.example:81 ', { href: 'http://a.example:81/', host: 'a.example:81' }],
    ['https://bank.example@evil.example', { href: 'https://bank.example@evil.example/', host: 'evil.example' }],
    ['https://bänk.example', { href: 'https://xn--bnk-qla.example/', host: 'xn--bnk-qla.example' }],
    ['mailto:a@b.example', { href: 'mailto:a@b.example', host: 'a@b.example' }],
  ])('return the host of http, https and mailto URLs: %s', (url, expected) => expect(safeLink(url)).toEqual(expected));

  it.each([
    'javascript:alert(1)',
    'JAVASCRIPT:1',
    '\u0001javascript:1',
    'data:text/html,x',
    'vbscript:1',
    'file:///x',
    'blob:https://a.example/1',
    'ftp://a.example',
    '//a.example',
    '/a',
    'a',
    '',
    `https://${'a'.repeat(5000)}`,
  ])('reject other URLs: %s', (url) => expect(safeLink(url)).toBeUndefined());

  it('recognize labels that name the host', () => {
    const to = { href: 'https://a.example/x', host: 'a.example' };

    expect(
      [
        'a.example',
        'https://a.example/x',
        'a.example/other',
        'https://b.example',
        'here',
        'a.example@b.example',
        'a.example is safe',
      ].map((label) => namesHost(label, to)),
    ).toEqual([true, true, true, false, false, false, false]);
  });
});

it('removes direction marks from prose and shows them as code points in exact text', () => {
  expect(safeProse('a\u202Eb\u2069')).toBe('ab');
  expect(safeExact('a\u202Eb\u2069')).toBe('a⟨U+202E⟩b⟨U+2069⟩');
});

it('accepts only inline images and files stored on this server', () => {
  expect(
    [
      'data:image/png;base64,AA==',
      'data:image/svg+xml;base64,AA==',
      'data:image/png,AA',
      'data:image/png;base64,A"',
      'https://a.example/a.png',
    ].map(isInlineImage),
  ).toEqual([true, false, false, false, false]);
  expect(
    [
      '/api/files/file_01k',
      '/api/files/file_../x',
      '/api/files/',
      '//x/api/files/file_1',
      'https://x/api/files/file_1',
    ].map(isStoredFile),
  ).toEqual([true, false, false, false, false]);
});

it('decodes common character references and leaves others unchanged', () => {
  expect(decodeEntities('&lt;b&gt; &amp;copy; &nope; &constructor; & &')).toBe('<b> &copy; &nope; &constructor; & &');
});
