/**
 * One cell, opened: its value as text, JSON, a conversation or a script. It is taken as a whole, or not at all. Half
 * written JSON would be gone in another mode: it is finished first.
 */
import { useState, type KeyboardEvent, type ReactNode } from 'react';
import { isEqual } from '@/components/forms/values';
import { focused } from '@/lib/dom';
import { askYes } from '@/components/confirm-dialog';
import { Button } from '@/components/button';
import { Sheet } from '@/components/dialog';
import { TextArea } from '@/components/form-fields';
import { Segments } from '@/components/segmented-control';
import { ConversationEditor } from './conversation-editor';
import type { ShownColumn } from './edits';
import { FaultsContext, useFaults } from './faults';
import { JsonInput } from './json-input';
import { type Message, isMessages, isOneMessage, isScript } from './said';
import { NEW_SCRIPT, ScriptEditor } from './script-editor';

type Mode = 'text' | 'json' | 'talk' | 'script';
const MODES: Readonly<Record<Mode, string>> = { text: 'Text', json: 'JSON', talk: 'Messages', script: 'Script' };

interface Props {
  title: string;
  column: ShownColumn;
  /** Undefined: the cell is empty. */
  value: unknown;
  onApply: (value: unknown) => void;
  onClose: () => void;
}

export function CellEditor({ title, column, value, onApply, onClose }: Props): ReactNode {
  const [now, setNow] = useState(value);
  const [mode, setMode] = useState<Mode>(() => modeOf(value, column.kind));
  const [wrong, report] = useFaults();
  const isSame = now === undefined || value === undefined ? now === value : isEqual(now, value);
  const apply = (): void => {
    if (wrong > 0) return;
    if (!isSame) onApply(now);
    onClose();
  };
  const close = async (): Promise<void> => {
    const lost = wrong > 0 || !isSame;
    if (!lost || (await askYes({ title: 'Close without taking what you wrote?', text: 'The cell stays as it was.', act: 'Close', danger: true }))) onClose();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    apply();
  };
  return (
    <Sheet open wide title={title} onClose={() => void close()}>
      <FaultsContext value={report}>
        <div role="presentation" className="flex min-h-full flex-col gap-3 pt-1" onKeyDown={onKey}>
          <Segments label="Written as" options={MODES} value={mode} onChange={(next) => wrong === 0 && setMode(next)} />
          <Editor mode={mode} kind={column.kind} value={now} onChange={setNow} />
          <div className="sticky bottom-0 mt-auto flex flex-wrap items-center gap-2 border-t bg-surface pt-3">
            <Button size="small" look="quiet" disabled={now === undefined} onClick={() => setNow(undefined)}>Empty</Button>
            <Button size="small" look="quiet" disabled={now === null} onClick={() => { setNow(null); setMode('json'); }}>Null</Button>
            <span className="grow text-right text-xs text-bad">{wrong > 0 && 'Something here cannot be read yet.'}</span>
            <Button onClick={() => void close()}>Cancel</Button>
            <Button look="main" disabled={wrong > 0} onClick={apply}>Apply</Button>
          </div>
        </div>
      </FaultsContext>
    </Sheet>
  );
}

function modeOf(value: unknown, kind: ShownColumn['kind']): Mode {
  if (typeof value === 'string') return 'text';
  if (isScript(value)) return 'script';
  if (isMessages(value) || isOneMessage(value)) return 'talk';
  if (value !== undefined) return 'json';
  if (kind === 'chat' || kind === 'message') return 'talk';
  return kind === 'script' ? 'script' : kind === 'number' || kind === 'boolean' || kind === 'json' ? 'json' : 'text';
}

interface EditorProps {
  mode: Mode;
  kind: ShownColumn['kind'];
  value: unknown;
  onChange: (value: unknown) => void;
}

/** Another way to write it changes nothing: only what is written does. */
function Editor({ mode, kind, value, onChange }: EditorProps): ReactNode {
  if (mode === 'text') {
    const text = typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value, null, 2);
    return (
      <>
        <TextArea ref={focused} dir="auto" aria-label="Text" rows={8} value={text} onChange={(event) => onChange(event.target.value)} className="!max-h-[65dvh] !min-h-40" />
        {value !== undefined && typeof value !== 'string' && <p className="text-xs text-muted">This is no text now. If you change it here, it becomes one.</p>}
      </>
    );
  }
  if (mode === 'json') return <JsonInput focus label="JSON" value={value} onChange={onChange} placeholder={kind === 'boolean' ? 'true' : kind === 'number' ? '42' : 'Any JSON'} />;
  if (mode === 'script') return isScript(value) ? <ScriptEditor script={value} onChange={onChange} /> : <Other what="script" value={value} read={isScript} begin={NEW_SCRIPT} onChange={onChange} />;
  if (isOneMessage(value)) return <ConversationEditor focus single messages={[value]} onChange={([only]) => onChange(only)} />;
  // A list of other messages (items of other protocols) is no list of roles and texts.
  if (isMessages(value) || (Array.isArray(value) && value.length === 0)) return <ConversationEditor focus messages={value as Message[]} onChange={onChange} />;
  const begin = kind === 'message' ? { role: 'user', content: '' } : [{ role: 'user', content: '' }];
  return <Other what="conversation of roles and texts" value={value} read={(one) => isMessages(one) || isOneMessage(one)} begin={begin} onChange={onChange} />;
}

/** What the value is not: it can become one. */
function Other({ what, value, read, begin, onChange }: { what: string; value: unknown; read: (value: unknown) => boolean; begin: unknown; onChange: (value: unknown) => void }): ReactNode {
  const inside = typeof value === 'string' ? parsed(value) : undefined;
  return (
    <div className="flex flex-col items-start gap-2 rounded-lg border border-dashed p-4 text-muted">
      <p>{value === undefined ? 'The cell is empty.' : `This is no ${what}.`}</p>
      {inside !== undefined && read(inside) && <Button size="small" look="main" onClick={() => onChange(inside)}>Its text is one: read it</Button>}
      <Button size="small" onClick={() => onChange(begin)}>{value === undefined ? 'Begin one' : 'Begin one in its place'}</Button>
    </div>
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
