import { expect, test } from 'vitest';
import {
  summarizeAgreement,
  firstUnanswered,
  describeKappa,
  missingAnswers,
  answerOptions,
  parseScore,
  formatAnswer,
} from './answers';
import { initialDraft, parseChoices, missingField, newQuestion, draftRequest, slug } from './draft';

test('derives a key from the question, in any alphabet', () => {
  expect(slug('Is it correct?')).toBe('is_it_correct');
  expect(slug('Ist es größer?')).toBe('ist_es_größer');
  expect(slug('正しいですか')).toBe('正しいですか');
  expect(slug('?!')).toBe('');
});

test('reports the first missing or invalid field of a draft', () => {
  expect(missingField(initialDraft(null))).toBe('Choose an evaluation.');
  expect(missingField(initialDraft('ev_1'))).toBeNull();
  expect(missingField({ ...initialDraft('ev_1'), questions: [] })).toBe('Add a question.');
  expect(missingField({ ...initialDraft('ev_1'), questions: null })).toBeNull();
  expect(missingField({ ...initialDraft('ev_1'), sample: 'few' })).toBe(
    'The sample size must be a whole number; leave it empty for all answers.',
  );
  expect(missingField({ ...initialDraft('ev_1'), questions: [newQuestion()] })).toBe('Question 1: enter a question.');
  expect(
    missingField({
      ...initialDraft('ev_1'),
      questions: [newQuestion({ title: 'Tone', type: 'choice', choices: 'kind' })],
    }),
  ).toBe('Question 1: enter at least two choices.');
  expect(
    missingField({ ...initialDraft('ev_1'), questions: [newQuestion({ title: 'Grade', type: 'score', min: '5' })] }),
  ).toBe('Question 1: the lowest score must be less than the highest.');
  expect(
    missingField({
      ...initialDraft('ev_1'),
      questions: [newQuestion({ title: 'Tone' }), newQuestion({ key: 'tone' })],
    }),
  ).toBe('Question 2: key already in use.');
});

test('sends only the fields that belong to the type of a question', () => {
  const questions = [
    newQuestion({ title: 'Tone', type: 'choice', choices: 'kind\n\n rude \nkind' }),
    newQuestion({ title: 'Grade', type: 'score', required: false }),
    newQuestion({ title: 'Why?', type: 'text' }),
  ];
  expect(
    draftRequest({
      ...initialDraft('ev_1'),
      name: ' Second look ',
      variant: 'new',
      evaluator: 'exact_match',
      sample: '20',
      questions,
      reviewers: 2,
    }),
  ).toEqual({
    name: 'Second look',
    items: { run: 'ev_1', variant: 'new', filter: { evaluator: 'exact_match', passed: false }, sample: 20 },
    questions: [
      { key: 'tone', type: 'choice', title: 'Tone', required: true, choices: ['kind', 'rude'] },
      { key: 'grade', type: 'score', title: 'Grade', required: false, range: [1, 5] },
      { key: 'why', type: 'text', title: 'Why?', required: true },
    ],
    reviewers: 2,
    blind: true,
  });
  expect(draftRequest({ ...initialDraft('ev_1'), questions: null })).toEqual({
    name: '',
    items: { run: 'ev_1', variant: null },
    questions: null,
    reviewers: 1,
    blind: true,
  });
  expect(parseChoices('')).toEqual([]);
});

const question = (key: string, more: object = {}) => ({
  key,
  type: 'boolean' as const,
  title: '',
  required: true,
  ...more,
});

test('gives each answer option a shortcut, which for a score is its value', () => {
  expect(answerOptions(question('a'))?.map(({ shortcut, label }) => `${shortcut} ${label}`)).toEqual(['1 Yes', '2 No']);
  expect(
    answerOptions(question('a', { type: 'choice', choices: ['kind', 'rude'] }))?.map(({ shortcut, value }) => [
      shortcut,
      value,
    ]),
  ).toEqual([
    ['1', 'kind'],
    ['2', 'rude'],
  ]);
  expect(
    answerOptions(question('a', { type: 'score', range: [0, 3] }))?.map(({ shortcut, value }) => [shortcut, value]),
  ).toEqual([
    ['0', 0],
    ['1', 1],
    ['2', 2],
    ['3', 3],
  ]);
  expect(answerOptions(question('a', { type: 'score', range: [0, 100] }))).toBeNull();
  expect(answerOptions(question('a', { type: 'score', range: [0, 0.5] }))).toBeNull();
  expect(answerOptions(question('a', { type: 'score' }))).toBeNull();
  expect(answerOptions(question('a', { type: 'text' }))).toBeNull();
});

test('requires a typed score to be within its range', () => {
  expect(parseScore(' 0.5', [0, 1])).toBe(0.5);
  expect(parseScore('2', [0, 1])).toBe('Enter a number from 0 to 1.');
  expect(parseScore('', null)).toBe('Enter a number.');
});

test('finds the next unanswered question, and the required ones that are missing', () => {
  const questions = [question('a'), question('b', { required: false }), question('c')];
  expect(firstUnanswered(questions, {})).toBe(0);
  expect(firstUnanswered(questions, { b: true }, 1)).toBe(2);
  expect(firstUnanswered(questions, { b: true, c: true }, 2)).toBe(0);
  expect(firstUnanswered(questions, { a: true, b: false, c: true })).toBeNull();
  expect(missingAnswers(questions, { a: false }).map(({ key }) => key)).toEqual(['c']);
});

test('formats answers and describes kappa values', () => {
  expect([true, false, 3, 0.5, 'kind'].map(formatAnswer)).toEqual(['Yes', 'No', '3', '0.5', 'kind']);
  expect([-0.1, 0.1, 0.4, 0.55, 0.75, 1].map(describeKappa)).toEqual([
    'worse than chance',
    'slight',
    'fair',
    'moderate',
    'substantial',
    'almost perfect',
  ]);
});

test('summarizes agreement by question, weighted by items and without judges', () => {
  const pair = { type: 'boolean' as const, raters: ['a', 'b'] as [string, string], kind: 'reviewers' as const };
  expect(
    summarizeAgreement([
      { ...pair, question: 'correct', n: 3, percent: 100, kappa: 1 },
      { ...pair, question: 'correct', n: 1, percent: 0, kappa: null },
      { ...pair, question: 'tone', n: 0, percent: null, kappa: null },
      { ...pair, question: 'correct', kind: 'judge', n: 9, percent: 0, kappa: 0 },
    ]),
  ).toEqual([{ question: 'correct', percent: 75, kappa: 1 }]);
});
