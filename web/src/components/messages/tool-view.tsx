/** Card of a tool call with input, output and the approval form. */
import { Ban, ChevronRight, CircleCheck, CircleHelp, CirclePause, CircleX, LoaderCircle } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import { Button } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { JsonView, jsonSummary } from '@/components/json-view';
import { LongText } from '@/components/text';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { safeExact } from '@/lib/safe-text';
import type { MessageActions } from './message';
import { toolName, type ToolPart } from './parts';

const STATES: Record<ToolState, { label: string; icon: ReactNode }> = {
  running: { label: 'Running', icon: <LoaderCircle className="animate-spin text-accent" /> },
  waiting: { label: 'Waiting', icon: <CircleHelp className="text-warn" /> },
  done: { label: 'Done', icon: <CircleCheck className="text-good" /> },
  failed: { label: 'Failed', icon: <CircleX className="text-bad" /> },
  denied: { label: 'Denied', icon: <Ban className="text-muted" /> },
  stopped: { label: 'Stopped', icon: <CirclePause className="text-muted" /> },
};

interface Props {
  part: ToolPart;
  streaming: boolean;
  approve?: MessageActions['approve'];
}

export function ToolView({ part, streaming, approve }: Props): ReactNode {
  const state = toolState(part, streaming);
  const isApprovalRequested = part.state === 'approval-requested';
  const [userOpen, setUserOpen] = useState<boolean>();
  const open = userOpen ?? (isApprovalRequested || state === 'failed');
  const id = useId();
  const { label, icon } = STATES[state];
  return (
    <section
      aria-label={`Tool ${safeExact(toolName(part))}`}
      className={cn('rounded-xl border bg-surface', isApprovalRequested && 'border-warn')}
    >
      <button
        type="button"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setUserOpen(!open)}
        className="flex w-full items-center gap-2 rounded-xl px-3 py-2 text-left hover:bg-sunken"
      >
        <span role="img" aria-label={label} title={label} className="shrink-0 [&>svg]:size-4">
          {icon}
        </span>
        <span dir="auto" className="max-w-[60%] shrink-0 truncate font-mono text-[13px] font-medium">
          {safeExact(toolName(part)).slice(0, 200)}
        </span>
        <span
          dir="ltr"
          className={cn('min-w-0 grow truncate font-mono text-xs', state === 'failed' ? 'text-bad' : 'text-faint')}
        >
          {!open && safeExact(toolSummary(part))}
        </span>
        <ChevronRight
          aria-hidden
          className={cn('size-4 shrink-0 text-faint transition-transform', open && 'rotate-90')}
        />
      </button>
      <div id={id} className={cn('space-y-3 border-t px-3 py-2.5', !open && 'hidden')}>
        {open && <ToolDetails part={part} />}
      </div>
      {isApprovalRequested && approve && (
        <ApprovalForm approve={(approved, reason) => approve(part.approval.id, approved, reason)} />
      )}
    </section>
  );
}

function ToolDetails({ part }: { part: ToolPart }): ReactNode {
  const input = toolInput(part);
  return (
    <>
      <Field label="Arguments">
        {input === undefined ? (
          <span className="text-faint">None yet</span>
        ) : 'text' in input ? (
          <RawValue text={input.text} />
        ) : (
          <JsonView value={input.value} />
        )}
      </Field>
      {part.state === 'output-available' && (
        <Field label="Result">
          {typeof part.output === 'string' ? <RawValue text={part.output} /> : <JsonView value={part.output} />}
        </Field>
      )}
      {part.state === 'output-error' && (
        <Field label="Error">
          <RawValue text={part.errorText} bad />
        </Field>
      )}
      {part.approval?.reason && (
        <Field label={part.approval.approved ? 'Reason for approval' : 'Reason for denial'}>
          <RawValue text={part.approval.reason} />
        </Field>
      )}
    </>
  );
}

const Field = ({ label, children }: { label: string; children: ReactNode }): ReactNode => (
  <div className="min-w-0">
    <div className="mb-0.5 text-xs text-muted">{label}</div>
    {children}
  </div>
);

const RawValue = ({ text, bad = false }: { text: string; bad?: boolean }): ReactNode => (
  <div
    dir="auto"
    className={cn(
      'max-h-80 overflow-y-auto rounded-md px-2 py-1 font-mono text-[13px] wrap-anywhere whitespace-pre-wrap',
      bad ? 'bg-bad-soft text-bad' : 'bg-sunken',
    )}
  >
    <LongText text={text} sanitize={safeExact} />
  </div>
);

function ApprovalForm({ approve }: { approve: (approved: boolean, reason?: string) => Promise<void> }): ReactNode {
  const [reason, setReason] = useState('');
  const [sending, setSending] = useState(false);
  const answer = (approved: boolean): void => {
    setSending(true);
    approve(approved, reason.trim() || undefined)
      .catch(showError)
      .finally(() => setSending(false));
  };
  return (
    <div role="group" aria-label="Tool approval" className="flex flex-wrap items-center gap-2 border-t px-3 py-2.5">
      <span className="font-medium">Run this tool?</span>
      <TextField
        aria-label="Reason (optional)"
        placeholder="Reason (optional)"
        dir="auto"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
        className="w-auto min-w-32 grow basis-40"
      />
      <Button variant="main" disabled={sending} onClick={() => answer(true)}>
        Approve
      </Button>
      <Button variant="danger" disabled={sending} onClick={() => answer(false)}>
        Deny
      </Button>
    </div>
  );
}

export type ToolState = 'running' | 'waiting' | 'done' | 'failed' | 'denied' | 'stopped';

/** `streaming`: the answer is still streaming; otherwise an unfinished call counts as stopped. */
export function toolState(part: ToolPart, streaming: boolean): ToolState {
  switch (part.state) {
    case 'approval-requested':
      return 'waiting';
    case 'output-available':
      return part.preliminary && streaming ? 'running' : 'done';
    case 'output-error':
      return 'failed';
    case 'output-denied':
      return 'denied';
    case 'approval-responded':
      return part.approval.approved ? (streaming ? 'running' : 'done') : 'denied';
    case 'input-streaming':
      return streaming ? 'running' : 'stopped';
    case 'input-available':
      // A call that the client must execute stays pending when the stream ends.
      return streaming ? 'running' : part.providerExecuted ? 'stopped' : 'waiting';
  }
}

/** Arguments so far: a value, or partial text. */
export function toolInput(part: ToolPart): { value: unknown } | { text: string } | undefined {
  if (part.state === 'input-streaming') return part.rawInput ? { text: part.rawInput } : wrapInput(part.input);
  return wrapInput(part.input ?? ('rawInput' in part ? part.rawInput : undefined));
}

const wrapInput = (input: unknown): { value: unknown } | { text: string } | undefined =>
  input === undefined ? undefined : typeof input === 'string' ? { text: input } : { value: input };

/** One-line summary of the call. */
export function toolSummary(part: ToolPart): string {
  if (part.state === 'output-available') return jsonSummary(part.output, 120);
  if (part.state === 'output-error') return part.errorText.split('\n', 1)[0]?.slice(0, 160) ?? '';
  if (part.state === 'output-denied') return part.approval.reason ?? '';
  const input = toolInput(part);
  return input === undefined ? '' : 'text' in input ? input.text.slice(-120) : jsonSummary(input.value, 120);
}
