/** The server is tested with the same cases (tests/evaluation/plan/test_column_map.py). */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Workflow } from '@/api/client';
import { chosenOrDefault, defaultMapping, type Mapping } from './column-map';
import type { MapDraft } from './draft';
import type { TestsetColumn } from './queries';

interface Case {
  of: string;
  columns: Readonly<Record<string, TestsetColumn['kind']>>;
  properties?: object;
  answers?: readonly string[];
  /** Columns that are empty in some rows. */
  gaps?: readonly string[];
  said?: MapDraft;
  /** Null: no column can become a message. */
  found: (Partial<Mapping> & { expected_fallbacks?: readonly string[] }) | null;
}

const cases = JSON.parse(
  readFileSync(new URL('../../../../tests/evaluation/plan/mapping_cases.json', import.meta.url), 'utf-8'),
) as readonly Case[];

test.each(cases)('$of', ({ columns, properties, answers = [], gaps = [], said: overrides = {}, found: expected }) => {
  const testsetColumns = Object.entries(columns).map(([name, kind]) => ({
    name,
    kind,
    present: 1,
    missing: gaps.includes(name) ? 1 : 0,
    nulls: 0,
  }));
  const inputs = {
    properties: { messages: { 'x-ag-type-ref': 'messages' }, ...properties },
    additionalProperties: true,
  };
  const mapping = defaultMapping(
    testsetColumns,
    { is_chat: true, schemas: { inputs } } as unknown as Workflow,
    answers,
    overrides,
  );
  if (expected === null) {
    expect([mapping.messages, mapping.script]).toEqual([null, null]);
    return;
  }
  const { expected_fallbacks: expectedFallbacks = [], ...found } = expected;
  expect({
    messages: chosenOrDefault(overrides.messages, mapping.messages),
    history: chosenOrDefault(overrides.history, mapping.history),
    script: chosenOrDefault(overrides.script, mapping.script),
    spoken: mapping.spoken,
    expected: chosenOrDefault(overrides.expected, mapping.expected),
    expectedFallbacks: mapping.expectedFallbacks,
    inputs: overrides.inputs ?? mapping.inputs,
  }).toEqual({
    messages: null,
    history: null,
    script: null,
    spoken: null,
    expected: null,
    expectedFallbacks,
    ...found,
  });
});
