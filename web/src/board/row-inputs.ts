/** The inputs of a board's row: what a new one begins with, and how what stands beside them changes them. */
import { client, workflow as describe } from '@/api/queries';
import type { Column } from '@/api/types';
import { exampleOf, formOf } from '@/components/forms/json-schema';
import type { Inputs, Values } from '@/components/messages/code-edit';
import type { BoardStore } from './board-store';

const NOTHING: Values = {};

const schemaOf = (workflow: string) => client.getQueryData(describe(workflow).queryKey)?.schemas.inputs;

/** The examples of the columns' workflows, as far as they are known; the first column's go first. */
export const beginning = (columns: readonly Pick<Column, 'workflow'>[]): Record<string, unknown> =>
  Object.assign({}, ...columns.map(({ workflow }) => exampleOf(schemaOf(workflow))).toReversed()) as Record<string, unknown>;

/** For what a cell shows. Changed as if somebody had typed it: shown at once, saved soon, in every tab. */
export function rowInputs(store: BoardStore, row: string, workflow: string): Inputs {
  return {
    subscribe: store.subscribe,
    read: () => store.board.rows.find(({ id }) => id === row)?.inputs ?? NOTHING,
    usual: () => {
      const { fields } = formOf(schemaOf(workflow) ?? {});
      return Object.fromEntries(fields.flatMap(({ name, shape }) => (shape.fallback === undefined || shape.fallback === null ? [] : [[name, shape.fallback]])));
    },
    change: (update) =>
      store.change((board) => ({ ...board, rows: board.rows.map((one) => (one.id === row ? { ...one, inputs: { ...update(one.inputs ?? NOTHING) } } : one)) })),
  };
}
