import { expect, test } from 'vitest';
import { searchByTitle } from './fuzzy-search';

const items = [
  { title: 'Stop all answers' },
  { title: 'Workflows' },
  { title: 'parameter-tutor', more: 'Explains a subject' },
  { title: 'Étude', more: '' },
];
const titles = (text: string) => searchByTitle(text, items).map(({ title }) => title);

test('returns all items, up to the limit, for an empty query', () => {
  expect(titles(' ')).toHaveLength(4);
  expect(searchByTitle('', items, 2)).toHaveLength(2);
});

test('requires every word in the title or the additional text, in any order', () => {
  expect(titles('answers stop')).toEqual(['Stop all answers']);
  expect(titles('subject tutor')).toEqual(['parameter-tutor']);
  expect(titles('stop tutor')).toEqual([]);
});

test('ranks matches at the start of a word above matches inside a word', () => {
  expect(searchByTitle('al', [{ title: 'Signal' }, { title: 'Stop all' }]).map(({ title }) => title)).toEqual([
    'Stop all',
    'Signal',
  ]);
});

test('ignores case and diacritics', () => {
  expect(titles('etu')).toEqual(['Étude']);
});
