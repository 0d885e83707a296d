/**
 * Sheet that edits one cell as text, JSON, a conversation or a script. Applied as a whole; invalid JSON must be fixed
 * before switching modes.
 */
import { useQuery } from '@tanstack/react-query';
import { useState, type KeyboardEvent, type ReactNode } from 'react';
import { Button } from '@/components/button';
import { askConfirmation } from '@/components/confirm-dialog';
import { Sheet } from '@/components/dialog';
import { TextArea, SegmentedControl } from '@/components/form-fields';
import { isEqual } from '@/components/forms/values';
import { JsonView } from '@/components/json-view';
import { ErrorMessage, Spinner } from '@/components/status';
import { LongText } from '@/components/text';
import { focusRef } from '@/lib/dom';
import { safeExact } from '@/lib/safe-text';
import { type CellMessage, isMessages, isSingleMessage, isScript, messagesIn } from './cell-messages';
import { ConversationView } from './cell-view';
import { ConversationEditor, NEW_SCRIPT, ScriptEditor } from './conversation-editor';
import {
  type ShownColumn,
  cellValue,
  applyPatch,
  type RowData,
  type Edits,
  type GridEntry,
  cutCellBytes,
  entryData,
} from './edits';
import { InputErrorsContext, useInputErrors, JsonInput } from './json-input';
import { fullRowQuery } from './queries';

type Mode = 'text' | 'json' | 'talk' | 'script';
const MODES: Readonly<Record<Mode, string>> = { text: 'Text', json: 'JSON', talk: 'Messages', script: 'Script' };

interface CellEditorProps {
  title: string;
  column: ShownColumn;
  /** Undefined: empty cell. */
  value: unknown;
  onApply: (value: unknown) => void;
  onClose: () => void;
}

export function CellEditor({ title, column, value, onApply, onClose }: CellEditorProps): ReactNode {
  const [current, setCurrent] = useState(value);
  const [mode, setMode] = useState<Mode>(() => initialMode(value, column.kind));
  const [errorCount, report] = useInputErrors();
  const isUnchanged = current === undefined || value === undefined ? current === value : isEqual(current, value);
  const apply = (): void => {
    if (errorCount > 0) return;
    if (!isUnchanged) onApply(current);
    onClose();
  };
  const close = async (): Promise<void> => {
    const hasUnsaved = errorCount > 0 || !isUnchanged;
    if (
      !hasUnsaved ||
      (await askConfirmation({
        title: 'Discard your edit?',
        text: 'The cell keeps its previous value.',
        act: 'Discard',
        danger: true,
      }))
    )
      onClose();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    apply();
  };
  return (
    <Sheet open wide title={title} onClose={() => void close()}>
      <InputErrorsContext value={report}>
        <div role="presentation" className="flex min-h-full flex-col gap-3 pt-1" onKeyDown={onKey}>
          <SegmentedControl
            label="Format"
            options={MODES}
            value={mode}
            onChange={(next) => errorCount === 0 && setMode(next)}
          />
          <ModeEditor mode={mode} kind={column.kind} value={current} onChange={setCurrent} />
          <div className="sticky bottom-0 mt-auto flex flex-wrap items-center gap-2 border-t bg-surface pt-3">
            <Button size="small" variant="quiet" disabled={current === undefined} onClick={() => setCurrent(undefined)}>
              Clear
            </Button>
            <Button
              size="small"
              variant="quiet"
              disabled={current === null}
              onClick={() => {
                setCurrent(null);
                setMode('json');
              }}
            >
              Set to null
            </Button>
            <span className="grow text-right text-xs text-bad">{errorCount > 0 && 'Fix the invalid value first.'}</span>
            <Button onClick={() => void close()}>Cancel</Button>
            <Button variant="main" disabled={errorCount > 0} onClick={apply}>
              Apply
            </Button>
          </div>
        </div>
      </InputErrorsContext>
    </Sheet>
  );
}

function initialMode(value: unknown, kind: ShownColumn['kind']): Mode {
  if (typeof value === 'string') return 'text';
  if (isScript(value)) return 'script';
  if (isMessages(value) || isSingleMessage(value)) return 'talk';
  if (value !== undefined) return 'json';
  if (kind === 'chat' || kind === 'message') return 'talk';
  return kind === 'script' ? 'script' : kind === 'number' || kind === 'boolean' || kind === 'json' ? 'json' : 'text';
}

interface ModeEditorProps {
  mode: Mode;
  kind: ShownColumn['kind'];
  value: unknown;
  onChange: (value: unknown) => void;
}

/** Switching the mode does not change the value; only edits do. */
function ModeEditor({ mode, kind, value, onChange }: ModeEditorProps): ReactNode {
  if (mode === 'text') {
    const text = typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value, null, 2);
    return (
      <>
        <TextArea
          ref={focusRef}
          dir="auto"
          aria-label="Text"
          rows={8}
          value={text}
          onChange={(event) => onChange(event.target.value)}
          className="max-h-[65dvh] min-h-40"
        />
        {value !== undefined && typeof value !== 'string' && (
          <p className="text-xs text-muted">This value is not text. Editing it here converts it to text.</p>
        )}
      </>
    );
  }
  if (mode === 'json')
    return (
      <JsonInput
        focus
        label="JSON"
        value={value}
        onChange={onChange}
        placeholder={kind === 'boolean' ? 'true' : kind === 'number' ? '42' : 'Any JSON'}
      />
    );
  if (mode === 'script')
    return isScript(value) ? (
      <ScriptEditor script={value} onChange={onChange} />
    ) : (
      <ConvertOffer noun="script" value={value} isValid={isScript} initialValue={NEW_SCRIPT} onChange={onChange} />
    );
  if (isSingleMessage(value))
    return <ConversationEditor focus single messages={[value]} onChange={([only]) => onChange(only)} />;
  // Items of other protocols are lists too, but have no role and text.
  if (isMessages(value) || (Array.isArray(value) && value.length === 0))
    return <ConversationEditor focus messages={value as CellMessage[]} onChange={onChange} />;
  const initialValue = kind === 'message' ? { role: 'user', content: '' } : [{ role: 'user', content: '' }];
  return (
    <ConvertOffer
      noun="conversation"
      value={value}
      isValid={(candidate) => isMessages(candidate) || isSingleMessage(candidate)}
      initialValue={initialValue}
      onChange={onChange}
    />
  );
}

/** Offers to convert a value of another form. */
function ConvertOffer({
  noun,
  value,
  isValid,
  initialValue,
  onChange,
}: {
  noun: string;
  value: unknown;
  isValid: (value: unknown) => boolean;
  initialValue: unknown;
  onChange: (value: unknown) => void;
}): ReactNode {
  const parsedText = typeof value === 'string' ? parseValue(value) : undefined;
  return (
    <div className="flex flex-col items-start gap-2 rounded-lg border border-dashed p-4 text-muted">
      <p>{value === undefined ? 'The cell is empty.' : `This value is not a ${noun}.`}</p>
      {parsedText !== undefined && isValid(parsedText) && (
        <Button size="small" variant="main" onClick={() => onChange(parsedText)}>
          Parse the text
        </Button>
      )}
      <Button size="small" onClick={() => onChange(initialValue)}>
        {value === undefined ? `Create ${noun}` : `Replace with a new ${noun}`}
      </Button>
    </div>
  );
}

function parseValue(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

interface CellSheetProps {
  id: string;
  number: number;
  entry: GridEntry;
  column: ShownColumn;
  edits: Edits;
  readOnly: boolean;
  onApply: (value: unknown, before: RowData | null) => void;
  onClose: () => void;
}

/** Loads the full value, then edits or shows it. */
export function CellSheet({ id, number, entry, column, edits, readOnly, onApply, onClose }: CellSheetProps): ReactNode {
  const isTruncated = cutCellBytes(entry, column.name, column.originalName) > 0;
  const { data: fullRow, error } = useQuery({ ...fullRowQuery(id, number, entry.row?.id ?? ''), enabled: isTruncated });
  const title = `${safeExact(column.name).slice(0, 80)}, ${entry.row ? `row ${entry.row.place + 1}` : 'new row'}`;
  if (isTruncated && !fullRow)
    return (
      <Sheet open wide title={title} onClose={onClose}>
        {error ? <ErrorMessage error={error} /> : <Spinner />}
      </Sheet>
    );
  const before = fullRow?.data ?? entry.row?.data ?? null;
  const value = cellValue(
    before && fullRow ? applyPatch(entry.key, before, edits) : entryData(entry, edits),
    column.name,
  );
  if (readOnly)
    return (
      <Sheet open wide title={title} onClose={onClose}>
        <div ref={focusRef} tabIndex={-1} className="outline-none">
          <ReadOnlyValue value={value} />
        </div>
      </Sheet>
    );
  return (
    <CellEditor
      title={title}
      column={column}
      value={value}
      onApply={(next) => onApply(next, before)}
      onClose={onClose}
    />
  );
}

function ReadOnlyValue({ value }: { value: unknown }): ReactNode {
  if (value === undefined) return <p className="text-muted">The cell is empty.</p>;
  if (typeof value === 'string')
    return (
      <p dir="auto" className="wrap-anywhere whitespace-pre-wrap">
        <LongText text={value} />
      </p>
    );
  const messages = messagesIn(isSingleMessage(value) ? [value] : value);
  return messages ? <ConversationView messages={messages} /> : <JsonView value={value} openLevels={3} />;
}
