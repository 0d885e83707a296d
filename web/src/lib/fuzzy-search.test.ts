import { expect, test } from 'vitest';
import { searchByTitle } from './fuzzy-search';

const items = [
  { title: 'Stop all answers' },
  { title: 'Workflows' },
  { title: 'parameter-tutor', more: 'Explains a subject' },
  { title: 'Étude', more: '' },
];
const titles = (text: string) => searchByTitle(text, items).map(({ title }) => title);

test('without a text all are meant, up to a number', () => {
  expect(titles(' ')).toHaveLength(4);
  expect(searchByTitle('', items, 2)).toHaveLength(2);
});

test('all words must be there, in any order, in the title or beside it', () => {
  expect(titles('answers stop')).toEqual(['Stop all answers']);
  expect(titles('subject tutor')).toEqual(['parameter-tutor']);
  expect(titles('stop tutor')).toEqual([]);
});

test('who begins a word means it more than who hits its middle', () => {
  expect(searchByTitle('al', [{ title: 'Signal' }, { title: 'Stop all' }]).map(({ title }) => title)).toEqual([
    'Stop all',
    'Signal',
  ]);
});

test('marks and case do not matter', () => {
  expect(titles('etu')).toEqual(['Étude']);
});
