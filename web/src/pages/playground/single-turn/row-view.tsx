/** A row: inputs at the left, then the outputs. A card on phones. */
import { Copy, MoreHorizontal, Play, Trash2, Plus, X } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import type { Column, Row, Run } from '@/api/client';
import { Button, IconButton } from '@/components/button';
import { TextArea } from '@/components/form-fields';
import { JsonField } from '@/components/forms/controls';
import { type JsonSchema, isObject } from '@/components/forms/json-schema';
import { SchemaForm } from '@/components/forms/schema-form';
import { withField } from '@/components/forms/values';
import { Menu, MenuItem, MenuLine } from '@/components/menu';
import { Badge } from '@/components/status';
import { cn } from '@/lib/cn';
import { capitalize } from '@/lib/format';
import { RowInputsProvider } from '@/pages/playground/row-inputs';
import { OutputCell } from './output-cell';
import type { RowActions } from './rows';

/** What the inputs of a row consist of. */
export interface RowInputSchema {
  schema: JsonSchema;
  /** Whether any column is a chat, which takes messages. */
  isChat: boolean;
  /** Whether there are inputs besides messages. */
  hasFields: boolean;
}

interface Props {
  row: Row;
  number: number;
  columns: readonly Column[];
  inputSchema: RowInputSchema;
  /** Undefined: not loaded; null: never run. */
  runOf: (row: string, column: string) => Run | null | undefined;
  base: string | null;
  actions: RowActions;
}

export const CELL_CLASS = 'min-w-0 p-2 sm:border-l';

export function RowView({ row, number, columns, inputSchema, runOf, base, actions }: Props): ReactNode {
  return (
    <div
      role="row"
      tabIndex={-1}
      className="grid grid-cols-1 sm:grid-cols-(--columns)"
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey) || event.nativeEvent.isComposing) return;
        event.preventDefault();
        actions.runRow(row.id);
      }}
    >
      <div role="rowheader" className="min-w-0 bg-canvas p-2 pt-1 sm:sticky sm:left-0 sm:z-10">
        <RowInputs row={row} number={number} inputSchema={inputSchema} actions={actions} />
      </div>
      {columns.map((column, index) => {
        const isComparing = base !== null && base !== column.id;
        return (
          <div role="cell" key={column.id} className={cn(CELL_CLASS, 'bg-surface max-sm:border-t')}>
            <p className="mb-1 flex items-center gap-1.5 text-xs font-medium text-muted sm:hidden">
              {column.workflow} {column.variant !== 'default' && column.variant}
              {base === column.id && <Badge>Base</Badge>}
            </p>
            <RowInputsProvider row={row.id} workflow={column.workflow}>
              <OutputCell
                run={runOf(row.id, column.id)}
                base={isComparing ? runOf(row.id, base) : undefined}
                label={`row ${number}, column ${index + 1}`}
                onRun={() => actions.run([[row.id, column.id]])}
                onStop={actions.stop}
              />
            </RowInputsProvider>
          </div>
        );
      })}
    </div>
  );
}

type InputsProps = Pick<Props, 'row' | 'number' | 'inputSchema' | 'actions'>;

const RowInputs = memo(function RowInputs({ row, number, inputSchema, actions }: InputsProps): ReactNode {
  const inputs = row.inputs ?? {};
  return (
    <>
      <div className="flex h-8 items-center gap-1">
        <span className="text-xs font-medium text-faint tabular-nums">{row.name || number}</span>
        <span className="grow" />
        <Button
          size="small"
          variant="quiet"
          aria-label={`Run row ${number}`}
          title="Run this row (Ctrl+Enter)"
          onClick={() => actions.runRow(row.id)}
        >
          <Play className="size-3.5" /> Run
        </Button>
        <Menu
          trigger={
            <IconButton size="small" label={`More actions for row ${number}`}>
              <MoreHorizontal />
            </IconButton>
          }
        >
          <MenuItem icon={<Copy />} onSelect={() => actions.duplicate(row.id)}>
            Duplicate row
          </MenuItem>
          <MenuLine />
          <MenuItem icon={<Trash2 />} danger onSelect={() => actions.remove(row.id)}>
            Delete row
          </MenuItem>
        </Menu>
      </div>
      <div className="flex flex-col gap-2">
        {inputSchema.isChat && (
          <MessagesEditor
            value={inputs.messages}
            onChange={(messages) => actions.change(row.id, withField(inputs, 'messages', messages))}
          />
        )}
        {inputSchema.hasFields && (
          <SchemaForm
            compact
            schema={inputSchema.schema}
            value={inputs}
            excluded={inputSchema.isChat ? ['messages'] : []}
            onChange={(next) => actions.change(row.id, next)}
          />
        )}
      </div>
    </>
  );
});

const ROLES = ['user', 'assistant', 'system', 'developer'];

interface Message {
  role: string;
  content: string;
}

/** Messages with a role and a text; null if any has another form, which is edited as JSON. */
function toPlainMessages(value: unknown): Message[] | null {
  if (value === undefined) return [];
  if (!Array.isArray(value)) return null;
  const isEditable = value.every(
    (message) =>
      isObject(message) &&
      typeof message.content === 'string' &&
      ROLES.includes(String(message.role)) &&
      Object.keys(message).every((name) => name === 'role' || name === 'content'),
  );
  return isEditable ? (value as Message[]) : null;
}

/** Edits the messages of a row. */
export function MessagesEditor({ value, onChange }: { value: unknown; onChange: (value: unknown) => void }): ReactNode {
  const messages = toPlainMessages(value);
  if (!messages) {
    return (
      <div>
        <p className="mb-1 text-xs font-medium text-muted">messages</p>
        <JsonField label="messages as JSON" value={value} onChange={onChange} />
      </div>
    );
  }
  const displayed = messages.length ? messages : [{ role: 'user', content: '' }];
  const patchMessage = (index: number, patch: Partial<Message>): void =>
    onChange(displayed.map((message, position) => (position === index ? { ...message, ...patch } : message)));
  const last = displayed.at(-1);
  return (
    <div className="flex flex-col gap-1.5">
      {displayed.map((message, index) => (
        <div
          // oxlint-disable-next-line react/no-array-index-key -- these messages have no identity but their place
          key={index}
          className="overflow-hidden rounded-lg border bg-surface transition-colors focus-within:border-accent"
        >
          <div className="flex h-7 items-center justify-between pr-0.5 pl-1">
            <select
              aria-label={`Role of message ${index + 1}`}
              value={message.role}
              onChange={(event) => patchMessage(index, { role: event.target.value })}
              className="h-6 cursor-pointer rounded-md bg-transparent px-1 text-xs text-muted hover:bg-sunken"
            >
              {ROLES.map((role) => (
                <option key={role}>{role}</option>
              ))}
            </select>
            {displayed.length > 1 && (
              <IconButton
                size="small"
                label={`Remove message ${index + 1}`}
                className="size-6"
                onClick={() => onChange(displayed.filter((_, position) => position !== index))}
              >
                <X />
              </IconButton>
            )}
          </div>
          <TextArea
            rows={1}
            dir="auto"
            aria-label={`Message ${index + 1}`}
            placeholder={`${capitalize(message.role)} message`}
            value={message.content}
            onChange={(event) => patchMessage(index, { content: event.target.value })}
            className="block min-h-8 rounded-none border-0 py-1 focus-visible:outline-none"
          />
        </div>
      ))}
      <Button
        size="small"
        variant="quiet"
        className="self-start px-1.5"
        onClick={() => onChange([...displayed, { role: last?.role === 'user' ? 'assistant' : 'user', content: '' }])}
      >
        <Plus className="size-3.5" /> Add message
      </Button>
    </div>
  );
}
