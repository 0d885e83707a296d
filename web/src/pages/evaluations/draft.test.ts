import { expect, test } from 'vitest';
import type { Workflow } from '@/api/client';
import { inputNames, defaultMapping } from './column-map';
import {
  EMPTY_DRAFT,
  draftFromEvaluation,
  newEvaluator,
  fieldTitle,
  freeName,
  missingPart,
  draftRequest,
  errorsUnder,
  errorsWithoutField,
  newVariant,
} from './draft';
import { commonParameters, simplifySchema, specificParameters } from './evaluators-section';
import {
  evaluatorFigure,
  formatFigure,
  formatInterval,
  formatTimeLeft,
  formatPace,
  formatPercent,
  formatPoints,
  formatScore,
} from './format';
import type { Evaluation, TestsetColumn } from './queries';

const column = (name: string, kind: TestsetColumn['kind']): TestsetColumn => ({
  name,
  kind,
  present: 1,
  missing: 0,
  nulls: 0,
});
const makeWorkflow = (isChat: boolean, inputs: object): Pick<Workflow, 'is_chat' | 'schemas'> =>
  ({ is_chat: isChat, schemas: { inputs } }) as unknown as Pick<Workflow, 'is_chat' | 'schemas'>;

test('reports what is missing in a draft, in the order of the form', () => {
  const draft = { ...EMPTY_DRAFT, testset: 'ts_1' };
  const workflow = newVariant({ workflow: 'tutor' });
  expect(missingPart(EMPTY_DRAFT)).toBe('Choose a test set.');
  expect(missingPart(draft)).toMatch(/^Add a variant/);
  expect(missingPart({ ...draft, variants: [newVariant({ kind: 'column' })] })).toMatch(
    /a workflow or column for every variant/,
  );
  expect(missingPart({ ...draft, variants: [workflow] })).toMatch(/^Add an evaluator/);
  expect(missingPart({ ...draft, variants: [workflow], evaluators: [newEvaluator('contains')] })).toBeNull();
});

test('sends only the values that were chosen', () => {
  const request = draftRequest({
    ...EMPTY_DRAFT,
    name: ' prompt v3 ',
    testset: 'ts_1',
    revision: '4',
    sample: 20,
    variants: [
      newVariant({ workflow: 'tutor', variant: 'short' }),
      newVariant({ kind: 'column', column: 'old', workflow: 'left behind' }),
    ],
    evaluators: [{ ...newEvaluator('regex'), parameters: { pattern: '^A' } }],
    map: { expected: null, inputs: { subject: 'topic' } },
  });
  expect(request).toEqual({
    name: 'prompt v3',
    testset: { id: 'ts_1', revision: 4, rows: { sample: 20 } },
    variants: [
      { name: 'short', workflow: 'tutor', variant: 'short', parameters: {} },
      { name: 'old', column: 'old' },
    ],
    evaluators: [{ key: 'regex', parameters: { pattern: '^A' } }],
    map: { expected: null, inputs: { subject: 'topic' } },
    repeats: 1,
    limits: { concurrency: 10, timeout: 60, retries: 2 },
  });
});

test('copies an evaluation into a draft', () => {
  const draft = draftFromEvaluation({
    name: 'v1',
    testset: { id: 'ts_1', name: 'Set', revision: 3 },
    variants: [
      {
        name: 'short',
        workflow: 'tutor',
        variant: 'short:3',
        parameters: { style: 'short' },
        map: { messages: 'q', expected: 'expected' },
      },
      { name: 'old', workflow: null, column: 'old' },
    ],
    evaluators: [
      { key: 'contains', name: 'contains', parameters: {} },
      { key: 'regex', name: 'starts', parameters: { pattern: '^A' } },
    ],
    repeats: 2,
    limits: { concurrency: 3, timeout: 9, retries: 0 },
    selection: null,
  } as unknown as Evaluation);
  expect(draftRequest(draft)).toEqual({
    name: 'v1',
    testset: { id: 'ts_1', revision: 'head' },
    variants: [
      { name: 'short', workflow: 'tutor', parameters: { style: 'short' } },
      { name: 'old', column: 'old' },
    ],
    evaluators: [
      { key: 'contains', parameters: {} },
      { key: 'regex', name: 'starts', parameters: { pattern: '^A' } },
    ],
    map: { messages: 'q', history: null, script: null, expected: 'expected' },
    repeats: 2,
    limits: { concurrency: 3, timeout: 9, retries: 0 },
  });
});

test.each([
  [
    'the messages column',
    { messages: 'messages', spoken: 'question', expected: 'expected' },
    { history: null, script: null, expected: 'expected' },
  ],
  [
    'the expected column',
    { messages: 'messages', expected: 'expected', expected_fallbacks: ['answer'] },
    { messages: 'messages', history: null, script: null },
  ],
])('leaves %s to the server when it copies a mapping with a fallback', (_, map, copied) => {
  const draft = draftFromEvaluation({
    name: 'v1',
    testset: { id: 'ts_1', name: 'Set', revision: 3 },
    variants: [{ name: 'tutor', workflow: 'tutor', map }],
    evaluators: [],
    repeats: 1,
    limits: {},
    selection: null,
  } as unknown as Evaluation);
  expect(draftRequest(draft).map).toEqual(copied);
});

test('separates the errors of a field from those without a field', () => {
  const errors = [
    { path: '/evaluators/1/parameters/pattern', message: 'no' },
    { path: '', message: 'what?' },
    { path: '/evaluators/10', message: 'ten' },
  ];
  expect(errorsUnder(errors, '/evaluators/1')).toEqual([{ path: '/parameters/pattern', message: 'no' }]);
  expect(errorsWithoutField(errors)).toEqual([{ path: '', message: 'what?' }]);
});

test('names the field of an error as the form does', () => {
  const evaluators = [newEvaluator('contains'), { ...newEvaluator('regex'), name: 'starts' }];
  const titleOf = (path: string) => fieldTitle(path, evaluators);
  expect(['/map/messages', '/map/history', '/map/inputs/a~1b', '/testset/rows', '/testset/id'].map(titleOf)).toEqual([
    'Column mapping, Messages',
    'Column mapping, History',
    'Column mapping, a/b',
    'Test set, Rows',
    'Test set',
  ]);
  expect(
    [
      '/variants/1',
      '/variants/0/workflow',
      '/variants/0/parameters/style',
      '/evaluators/0/key',
      '/evaluators/1/parameters/pattern',
    ].map(titleOf),
  ).toEqual([
    'Variant 2',
    'Variant 1, Workflow',
    'Variant 1, style',
    'Evaluator contains, Key',
    'Evaluator starts, pattern',
  ]);
  expect(['/limits/concurrency', '/limits/timeout', '/repeats'].map(titleOf)).toEqual([
    'Repeats and limits, Concurrency',
    'Repeats and limits, Timeout',
    'Repeats and limits, Repeats',
  ]);
});

test('numbers a name that is already used', () => {
  expect([freeName('tutor', []), freeName('tutor', ['tutor', 'tutor 2'])]).toEqual(['tutor', 'tutor 3']);
});

test('maps columns by default as the server does', () => {
  const columns = [
    column('messages', 'chat'),
    column('topic', 'text'),
    column('expected', 'text'),
    column('old', 'text'),
  ];
  const tutor = makeWorkflow(true, { properties: { messages: {}, subject: {} }, additionalProperties: true });
  expect(defaultMapping(columns, tutor, ['old'])).toEqual({
    messages: 'messages',
    history: null,
    script: null,
    spoken: null,
    expected: 'expected',
    expectedFallbacks: [],
    inputs: { topic: 'topic' },
  });
  expect(inputNames(tutor)).toEqual(['subject']);
  const payload = [column('content', 'text'), column('history', 'chat')];
  expect(defaultMapping(payload, tutor)).toEqual({
    messages: 'content',
    history: 'history',
    script: null,
    spoken: null,
    expected: null,
    expectedFallbacks: [],
    inputs: {},
  });
  const shout = makeWorkflow(false, { properties: { text: {} }, additionalProperties: false });
  expect(defaultMapping([column('text', 'text'), column('more', 'text'), column('reference', 'text')], shout)).toEqual({
    messages: null,
    history: null,
    script: null,
    spoken: null,
    expected: 'reference',
    expectedFallbacks: [],
    inputs: { text: 'text' },
  });
});

test('shows a parameter that is a list of texts or one text as a list', () => {
  const names = { anyOf: [{ type: 'array', items: { type: 'string' } }, { type: 'string' }], description: 'Which.' };
  const schema = {
    properties: {
      names,
      equals: { anyOf: [{ type: 'object' }, { type: 'string' }] },
      target: { type: 'string' },
      name: {},
    },
  };
  expect(simplifySchema(schema)['properties']).toEqual({
    ...schema.properties,
    names: { type: 'array', items: { type: 'string' }, description: 'Which.' },
  });
  expect([specificParameters(schema), commonParameters(schema)]).toEqual([['names', 'equals'], ['target']]);
});

test('formats percentages, scores, times and intervals', () => {
  expect([formatPercent(0.828), formatPercent(1), formatPercent(0.0004)]).toEqual(['82.8%', '100%', '0%']);
  expect([formatPoints(-0.039), formatPoints(0.02), formatPoints(0)]).toEqual([
    '−3.9 points',
    '+2 points',
    '±0 points',
  ]);
  expect([formatScore(0.83333), formatScore(3), formatScore(12_345.6)]).toEqual(['0.833', '3', '12,346']);
  expect([formatTimeLeft(0.2), formatTimeLeft(42), formatTimeLeft(300), formatTimeLeft(9000)]).toEqual([
    'less than 1 s',
    '42 s',
    '5 min',
    '2.5 h',
  ]);
  expect([formatPace(12.34), formatPace(0.5)]).toEqual(['12.3 per second', '30 per minute']);
  const passes = evaluatorFigure({ pass_rate: 0.5, pass_ci: [0.4, 0.6], mean: 0.7, mean_ci: null });
  expect(passes && [formatFigure(passes), formatInterval(passes)]).toEqual(['50%', '95% CI 40% to 60%']);
  const scored = evaluatorFigure({ pass_rate: null, pass_ci: null, mean: 0.7, mean_ci: null });
  expect(scored && [formatFigure(scored), formatInterval(scored)]).toEqual(['0.7', '']);
  expect(evaluatorFigure({ pass_rate: null, pass_ci: null, mean: null, mean_ci: null })).toBeNull();
});
