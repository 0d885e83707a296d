/** A tool call as a card: its name, how far it is, what it was given and what it gave; and the question whether it may. */
import { Ban, ChevronRight, CircleCheck, CircleHelp, CirclePause, CircleX, LoaderCircle } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import type { MessageActs } from '@/chat/message';
import { classes } from '@/lib/class-names';
import { Button } from '@/ui/button';
import { TextField } from '@/ui/fields';
import { tellError } from '@/ui/toast';
import { JsonView } from './json-view';
import { LongText } from './long-text';
import { toolName, type ToolPart } from './part-groups';
import { exact } from '@/lib/safe-text';
import { toolInput, toolLine, toolState, type ToolState } from './tool-state';

const STATES: Record<ToolState, { word: string; icon: ReactNode }> = {
  running: { word: 'Running', icon: <LoaderCircle className="animate-spin text-accent" /> },
  waiting: { word: 'Waiting', icon: <CircleHelp className="text-warn" /> },
  done: { word: 'Done', icon: <CircleCheck className="text-good" /> },
  failed: { word: 'Failed', icon: <CircleX className="text-bad" /> },
  denied: { word: 'Denied', icon: <Ban className="text-muted" /> },
  stopped: { word: 'Stopped', icon: <CirclePause className="text-muted" /> },
};

interface Props {
  part: ToolPart;
  live: boolean;
  approve?: MessageActs['approve'];
}

export function ToolView({ part, live, approve }: Props): ReactNode {
  const state = toolState(part, live);
  const asked = part.state === 'approval-requested';
  const [opened, setOpened] = useState<boolean>();
  const open = opened ?? (asked || state === 'failed');
  const id = useId();
  const { word, icon } = STATES[state];
  return (
    <section aria-label={`Tool ${exact(toolName(part))}`} className={classes('rounded-xl border bg-surface', asked && 'border-warn')}>
      <button
        type="button"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpened(!open)}
        className="flex w-full items-center gap-2 rounded-xl px-3 py-2 text-left hover:bg-sunken"
      >
        <span role="img" aria-label={word} title={word} className="shrink-0 [&>svg]:size-4">{icon}</span>
        <span dir="auto" className="max-w-[60%] shrink-0 truncate font-mono text-[13px] font-medium">{exact(toolName(part)).slice(0, 200)}</span>
        <span dir="ltr" className={classes('min-w-0 grow truncate font-mono text-xs', state === 'failed' ? 'text-bad' : 'text-faint')}>
          {!open && exact(toolLine(part))}
        </span>
        <ChevronRight aria-hidden className={classes('size-4 shrink-0 text-faint transition-transform', open && 'rotate-90')} />
      </button>
      <div id={id} className={classes('space-y-3 border-t px-3 py-2.5', !open && 'hidden')}>{open && <Inside part={part} />}</div>
      {asked && approve && <Question ask={(approved, reason) => approve(part.approval.id, approved, reason)} />}
    </section>
  );
}

function Inside({ part }: { part: ToolPart }): ReactNode {
  const input = toolInput(part);
  return (
    <>
      <Field label="Arguments">
        {input === undefined ? <span className="text-faint">None yet</span> : 'text' in input ? <Raw text={input.text} /> : <JsonView value={input.value} />}
      </Field>
      {part.state === 'output-available' && (
        <Field label="Result">{typeof part.output === 'string' ? <Raw text={part.output} /> : <JsonView value={part.output} />}</Field>
      )}
      {part.state === 'output-error' && <Field label="Error"><Raw text={part.errorText} bad /></Field>}
      {part.approval?.reason && <Field label={part.approval.approved ? 'Approved, because' : 'Denied, because'}><Raw text={part.approval.reason} /></Field>}
    </>
  );
}

const Field = ({ label, children }: { label: string; children: ReactNode }): ReactNode => (
  <div className="min-w-0">
    <div className="mb-0.5 text-xs text-muted">{label}</div>
    {children}
  </div>
);

const Raw = ({ text, bad = false }: { text: string; bad?: boolean }): ReactNode => (
  <div
    dir="auto"
    className={classes(
      'max-h-80 overflow-y-auto rounded-md px-2 py-1 font-mono text-[13px] wrap-anywhere whitespace-pre-wrap',
      bad ? 'bg-bad-soft text-bad' : 'bg-sunken',
    )}
  >
    <LongText text={text} tidy={exact} />
  </div>
);

function Question({ ask }: { ask: (approved: boolean, reason?: string) => Promise<void> }): ReactNode {
  const [reason, setReason] = useState('');
  const [sending, setSending] = useState(false);
  const answer = (approved: boolean): void => {
    setSending(true);
    ask(approved, reason.trim() || undefined).catch(tellError).finally(() => setSending(false));
  };
  return (
    <div role="group" aria-label="May this tool run?" className="flex flex-wrap items-center gap-2 border-t px-3 py-2.5">
      <span className="font-medium">May it run?</span>
      <TextField
        aria-label="Reason (optional)"
        placeholder="Reason (optional)"
        dir="auto"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        className="!w-auto min-w-32 grow basis-40"
      />
      <Button look="main" disabled={sending} onClick={() => answer(true)}>Approve</Button>
      <Button look="danger" disabled={sending} onClick={() => answer(false)}>Deny</Button>
    </div>
  );
}
