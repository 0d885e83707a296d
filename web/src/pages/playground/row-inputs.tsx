/** Inputs of a board's row: defaults, editing, and access for messages. */
import { useQueries } from '@tanstack/react-query';
import { Braces, Trash2 } from 'lucide-react';
import { useMemo, type ReactNode } from 'react';
import type { Column, Row } from '@/api/client';
import { queryClient, workflowQuery } from '@/api/queries';
import { Button, IconButton } from '@/components/button';
import { Popover } from '@/components/dialog';
import { exampleOf, formOf, hasWideField, isObject, type JsonSchema } from '@/components/forms/json-schema';
import { SchemaForm } from '@/components/forms/schema-form';
import { jsonSummary } from '@/components/json-view';
import { type InputsAccess, type InputValues, InputsContext } from '@/components/messages/code-edit';
import { cn } from '@/lib/cn';
import { type BoardStore, useBoardStore, useBoard, freeId } from './board-store';
import { mergeSchemas } from './single-turn/rows';

const NO_INPUTS: InputValues = {};

const schemaOf = (workflow: string) => queryClient.getQueryData(workflowQuery(workflow).queryKey)?.schemas.inputs;

/** Merged examples of the columns' workflows; earlier columns win. */
export const initialInputs = (columns: readonly Pick<Column, 'workflow'>[]): Record<string, unknown> =>
  Object.assign({}, ...columns.map(({ workflow }) => exampleOf(schemaOf(workflow))).toReversed()) as Record<
    string,
    unknown
  >;

/** Inputs access for a cell. Changes behave as if typed: visible at once, saved soon, in every tab. */
export function rowInputs(store: BoardStore, row: string, workflow: string): InputsAccess {
  return {
    subscribe: store.state.subscribe,
    read: () => store.board.rows.find(({ id }) => id === row)?.inputs ?? NO_INPUTS,
    defaults: () => {
      const { fields } = formOf(schemaOf(workflow) ?? {});
      return Object.fromEntries(
        fields.flatMap(({ name, shape }) =>
          shape.fallback === undefined || shape.fallback === null ? [] : [[name, shape.fallback]],
        ),
      );
    },
    change: (update) =>
      store.change((board) => ({
        ...board,
        rows: board.rows.map((other) =>
          other.id === row ? { ...other, inputs: { ...update(other.inputs ?? NO_INPUTS) } } : other,
        ),
      })),
  };
}

/** Lets the content of a cell change the inputs of its row. */
export function RowInputsProvider({
  row,
  workflow,
  children,
}: {
  row: string;
  workflow: string;
  children: ReactNode;
}): ReactNode {
  const store = useBoardStore();
  const inputs = useMemo(() => rowInputs(store, row, workflow), [store, row, workflow]);
  return <InputsContext value={inputs}>{children}</InputsContext>;
}

/** Inputs of all columns' workflows, in one schema. */
function useInputs(columns: readonly Column[]): JsonSchema {
  const names = [...new Set(columns.map((column) => column.workflow))];
  const results = useQueries({ queries: names.map((name) => workflowQuery(name)) });
  return mergeSchemas(results.map(({ data }) => data?.schemas.inputs ?? {}));
}

/** Whether there are inputs besides messages. */
export function hasInputs(schema: JsonSchema): boolean {
  const { fields, open } = formOf(schema, ['messages']);
  return fields.length > 0 || open;
}

export const useHasInputs = (columns: readonly Column[]): boolean => hasInputs(useInputs(columns));

export function addRow(store: BoardStore): void {
  store.change((old) =>
    old.rows.length >= 50
      ? old
      : { ...old, rows: [...old.rows, { id: freeId('r', old.rows), name: '', inputs: initialInputs(old.columns) }] },
  );
}

/** Short text of an input; of an object only the names. */
const summarizeInput = (value: unknown): string =>
  typeof value === 'string'
    ? (value.trimStart().split('\n', 1)[0] ?? '').slice(0, 200)
    : isObject(value)
      ? Object.keys(value).slice(0, 20).join(', ')
      : jsonSummary(value);

interface Props {
  row: Row;
  number: number;
}

export function RowHeader({ row, number }: Props): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const schema = useInputs(board.columns);
  const change = (patch: Partial<Row>) =>
    store.change((old) => ({
      ...old,
      rows: old.rows.map((other) => (other.id === row.id ? { ...other, ...patch } : other)),
    }));
  const remove = () => store.change((old) => ({ ...old, rows: old.rows.filter(({ id }) => id !== row.id) }));
  const entries = Object.entries(row.inputs ?? {});
  return (
    <div className="flex h-9 items-center gap-1 px-2 text-muted">
      <input
        aria-label={`Name of thread ${number}`}
        className={cn(
          'field-sizing-content h-7 max-w-60 min-w-20 rounded-md',
          'bg-transparent px-1 text-[13px] font-medium hover:bg-sunken',
        )}
        placeholder={`Thread ${number}`}
        value={row.name}
        maxLength={80}
        onChange={(event) => change({ name: event.target.value })}
      />
      {hasInputs(schema) && (
        <Popover
          label="Inputs"
          align="start"
          width={hasWideField(formOf(schema, ['messages'])) ? 'w-[36rem]' : 'w-96'}
          trigger={
            <Button size="small" variant="quiet" className="shrink min-w-0">
              <Braces className="size-3.5 shrink-0" />
              <span className="truncate">
                {entries.length === 0
                  ? 'Inputs'
                  : entries.map(([name, value]) => `${name}: ${summarizeInput(value)}`).join(' · ')}
              </span>
            </Button>
          }
        >
          <h3 className="mb-3 font-semibold">Thread inputs</h3>
          <SchemaForm
            schema={schema}
            value={row.inputs ?? {}}
            excluded={['messages']}
            onChange={(inputs) => change({ inputs })}
          />
        </Popover>
      )}
      <span className="grow" />
      {board.rows.length > 1 && (
        <IconButton label={`Remove thread ${number} from the board`} size="small" onClick={remove}>
          <Trash2 />
        </IconButton>
      )}
    </div>
  );
}
