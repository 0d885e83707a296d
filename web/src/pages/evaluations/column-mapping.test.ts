/** What is shown of columns before is what is run: the server is held to the same cases (tests/evaluation/plan/test_column_map.py). */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { Workflow } from '@/api/types';
import { chosenOrDefault, defaultMapping, type Mapping } from './column-mapping';
import type { MapDraft } from './draft';
import type { TestsetColumn } from './queries';

interface Case {
  of: string;
  columns: Readonly<Record<string, TestsetColumn['kind']>>;
  properties?: object;
  answers?: readonly string[];
  /** Columns that some rows have nothing in. */
  gaps?: readonly string[];
  said?: MapDraft;
  /** Null: nothing is found that the chat could be told. */
  found: Partial<Mapping> | null;
}

const cases = JSON.parse(
  readFileSync(new URL('../../../../tests/evaluation/plan/mapping_cases.json', import.meta.url), 'utf-8'),
) as readonly Case[];

test.each(cases)('$of', ({ columns, properties, answers = [], gaps = [], said = {}, found }) => {
  const named = Object.entries(columns).map(([name, kind]) => ({
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
  const shown = defaultMapping(named, { is_chat: true, schemas: { inputs } } as unknown as Workflow, answers, said);
  if (found === null) {
    expect([shown.messages, shown.script]).toEqual([null, null]);
    return;
  }
  expect({
    messages: chosenOrDefault(said.messages, shown.messages),
    history: chosenOrDefault(said.history, shown.history),
    script: chosenOrDefault(said.script, shown.script),
    spoken: shown.spoken,
    expected: chosenOrDefault(said.expected, shown.expected),
    inputs: said.inputs ?? shown.inputs,
  }).toEqual({ messages: null, history: null, script: null, spoken: null, expected: null, ...found });
});
