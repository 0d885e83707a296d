/** Column headers, column dialogs and conversion of text columns to messages. */
import { ChevronDown, Eraser, MessagesSquare, PaintBucket, Pencil, Trash2 } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { fetchOk } from '@/api/client';
import { IconButton, Button } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { Select, TextArea, TextField, LabeledField } from '@/components/form-fields';
import { Menu, MenuItem, MenuLine } from '@/components/menu';
import { Badge } from '@/components/status';
import { focusRef } from '@/lib/dom';
import { safeExact } from '@/lib/safe-text';
import {
  type ShownColumn,
  type TestsetColumn,
  type Edits,
  columnNameError,
  renameColumn,
  withColumn,
  withFill,
  type RowData,
  cellValue,
  withCells,
} from './edits';
import { InputErrorsContext, useInputErrors, JsonInput, inexactNumberError } from './json-input';

export const KIND_LABELS: Readonly<Record<ShownColumn['kind'], string>> = {
  chat: 'Every value is a conversation',
  message: 'Every value is one message',
  script: 'Every value is a conversation script',
  text: 'Every value is text',
  number: 'Every value is a number',
  boolean: 'Every value is true or false',
  json: 'Every value is an object or a list',
  mixed: 'Values of different types, or no values',
};

export interface ColumnActions {
  rename: (column: ShownColumn) => void;
  fill: (column: ShownColumn) => void;
  remove: (column: ShownColumn) => void;
  convert: (column: ShownColumn) => void;
}

export function ColumnHeader({
  column,
  actions,
}: {
  column: ShownColumn;
  actions: ColumnActions | undefined;
}): ReactNode {
  const name = safeExact(column.name);
  return (
    <div className="flex w-full min-w-0 items-center gap-1.5">
      <bdi
        className="min-w-0 truncate font-medium"
        title={column.originalName === null ? name : `${name}, renamed from ${safeExact(column.originalName)}`}
      >
        {name}
      </bdi>
      <Badge
        title={KIND_LABELS[column.kind]}
        tone={
          column.isNew
            ? 'good'
            : column.kind === 'chat' || column.kind === 'script' || column.kind === 'message'
              ? 'accent'
              : 'plain'
        }
      >
        {column.isNew ? 'new' : column.kind}
      </Badge>
      <span className="grow" />
      {actions && (
        <Menu
          trigger={
            <IconButton size="small" label={`Column ${name}`}>
              <ChevronDown />
            </IconButton>
          }
        >
          {column.looksLikeChat && (
            <MenuItem icon={<MessagesSquare />} onSelect={() => actions.convert(column)}>
              Convert to messages
            </MenuItem>
          )}
          <MenuItem icon={<Pencil />} onSelect={() => actions.rename(column)}>
            Rename
          </MenuItem>
          <MenuItem icon={<PaintBucket />} onSelect={() => actions.fill(column)}>
            Fill empty cells
          </MenuItem>
          <MenuLine />
          <MenuItem danger icon={column.isNew ? <Eraser /> : <Trash2 />} onSelect={() => actions.remove(column)}>
            Remove column
          </MenuItem>
        </Menu>
      )}
    </div>
  );
}

export type ColumnAction = { act: 'add' } | { act: 'rename' | 'fill'; column: string };

interface Props {
  action: ColumnAction;
  columns: readonly TestsetColumn[];
  edits: Edits;
  onDone: (edits: Edits) => void;
  onClose: () => void;
}

const TITLES = { add: 'Add column', rename: 'Rename column', fill: 'Fill empty cells' };

export function ColumnDialog({ action, columns, edits, onDone, onClose }: Props): ReactNode {
  const oldName = 'column' in action ? action.column : '';
  const [name, setName] = useState(oldName);
  const [fillKind, setFillKind] = useState<'nothing' | 'text' | 'json'>(action.act === 'fill' ? 'text' : 'nothing');
  const [text, setText] = useState('');
  const [value, setValue] = useState<unknown>(undefined);
  const [errorCount, report] = useInputErrors();
  const error =
    action.act === 'fill' ? null : columnNameError(name, columns, edits, action.act === 'rename' ? oldName : undefined);
  const fillValue = fillKind === 'text' ? text : fillKind === 'json' ? value : undefined;
  const isReady = error === null && errorCount === 0 && (action.act !== 'fill' || fillValue !== undefined);
  const submit = (): void => {
    if (!isReady) return;
    const renamedEdits =
      action.act === 'rename'
        ? renameColumn(edits, oldName, name)
        : action.act === 'add'
          ? withColumn(edits, name)
          : edits;
    onDone(fillValue === undefined ? renamedEdits : withFill(renamedEdits, name, fillValue));
    onClose();
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title={TITLES[action.act]}
      {...(action.act === 'fill'
        ? { description: `Sets a value wherever ${safeExact(oldName).slice(0, 80)} is empty.` }
        : {})}
    >
      <InputErrorsContext value={report}>
        <form
          className="flex flex-col gap-3 pt-1"
          onSubmit={(event) => {
            event.preventDefault();
            submit();
          }}
        >
          {action.act !== 'fill' && (
            <LabeledField label="Name">
              <TextField
                ref={focusRef}
                dir="auto"
                maxLength={1000}
                value={name}
                aria-invalid={name !== '' && error !== null}
                onChange={(event) => setName(event.target.value)}
              />
            </LabeledField>
          )}
          {name !== '' && error && (
            <p role="alert" className="text-xs text-bad">
              {error}
            </p>
          )}
          {action.act !== 'rename' && (
            <LabeledField label={action.act === 'fill' ? 'Value' : 'Value for all rows'}>
              <Select value={fillKind} onChange={(event) => setFillKind(event.target.value as typeof fillKind)}>
                {action.act === 'add' && <option value="nothing">None</option>}
                <option value="text">Text</option>
                <option value="json">JSON</option>
              </Select>
            </LabeledField>
          )}
          {fillKind === 'text' && (
            <TextArea
              dir="auto"
              aria-label="Text"
              rows={2}
              value={text}
              onChange={(event) => setText(event.target.value)}
            />
          )}
          {fillKind === 'json' && <JsonInput label="JSON" value={value} onChange={setValue} placeholder="true" />}
          <div className="flex justify-end gap-2">
            <Button onClick={onClose}>Cancel</Button>
            <Button type="submit" variant="main" disabled={!isReady}>
              {action.act === 'rename' ? 'Rename' : action.act === 'add' ? 'Add' : 'Fill'}
            </Button>
          </div>
        </form>
      </InputErrorsContext>
    </Dialog>
  );
}

/** Larger test sets must be converted as a file. */
const MAX_CONVERTED_ROWS = 20_000;

/** Parse a column of JSON texts. Returns a function that adds the results to edits, and the number of other texts. */
export async function convertToMessages(
  id: string,
  base: number,
  rows: number,
  column: ShownColumn,
): Promise<{ convert: (edits: Edits) => Edits; unconverted: number }> {
  if (rows > MAX_CONVERTED_ROWS)
    throw new Error(
      `Only test sets of up to ${MAX_CONVERTED_ROWS.toLocaleString('en')} rows can be converted here. ` +
        'Export the test set, convert the file and import it.',
    );
  const answer = await fetchOk(
    `/api/testsets/${encodeURIComponent(id)}/revisions/${base}/export?format=jsonl&ids=true`,
    {},
  );
  const lines = (await answer.text()).split('\n').filter(Boolean);
  const name = column.originalName ?? column.name;
  let unconverted = 0;
  const changes = lines.flatMap((line) => {
    const { __id__: row, ...before } = JSON.parse(line) as RowData & { __id__: string };
    const text = cellValue(before, name);
    const value = typeof text === 'string' ? parseMessages(text) : undefined;
    if (value === undefined && typeof text === 'string') unconverted += 1;
    return value === undefined ? [] : [{ id: row, name: column.name, value, before }];
  });
  return {
    convert: (edits) =>
      withCells(
        edits,
        changes.filter((change) => !edits.removed.has(change.id)),
      ),
    unconverted,
  };
}

/** Parse a JSON object or list; undefined if the text is neither, or if a number would lose precision. */
function parseMessages(text: string): unknown {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && inexactNumberError(text) === null ? value : undefined;
  } catch {
    return undefined;
  }
}
