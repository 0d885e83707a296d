/** How one message of a chat is shown: what was said, and what can be done about it. */
/* oxlint-disable react/no-array-index-key -- parts are only ever added at the end */
import { CircleAlert, CircleStop, RotateCw } from 'lucide-react';
import { memo, useState, type ReactNode } from 'react';
import type { ChatMessage, MessageActs, Told } from '@/chat/message';
import { classes } from '@/lib/class-names';
import { Button, Hint } from '@/ui/button';
import { tellError } from '@/ui/toast';
import { ActsBar } from './acts-bar';
import { EditView } from './edit-view';
import { FilesView } from './file-view';
import { LongText } from './long-text';
import { isNotice } from './notice-shape';
import { groups, spoken, type Group } from './part-groups';
import { PartView } from './part-view';
import { prose } from '@/lib/safe-text';
import { VersionsView } from './versions-view';
import { formatUsage, formatUsageDetails } from '@/lib/format';

interface Props {
  message: ChatMessage;
  streaming: boolean;
  /** Kept the same between renders where nothing changed: a new object draws the message again. */
  acts: MessageActs;
}

const NO_TOLD: Told = {};
const QUIET =
  'opacity-0 transition-opacity group-focus-within/message:opacity-100 group-hover/message:opacity-100 has-data-[state=open]:opacity-100 pointer-coarse:opacity-100';

/** Drawn again only when the message itself is another: not while a message beside it streams. */
export const MessageView = memo(function MessageView({ message, streaming, acts }: Props): ReactNode {
  const [editing, setEditing] = useState(false);
  const told = message.metadata ?? NO_TOLD;
  const speaker = told.role ?? message.role;
  const save = acts.edit;
  const bar = (
    // The last comes first at the right edge, so that what always shows stands at the message's own side.
    <div className={classes('flex min-h-7 flex-wrap items-center gap-x-2', speaker === 'user' && 'flex-row-reverse')}>
      <VersionsView told={told} show={acts.show} />
      <Cost told={told} />
      {!streaming && (
        <div className={classes(QUIET, speaker !== 'user' && 'first:-ml-1.5')}>
          <ActsBar message={message} acts={acts} edit={save && (() => setEditing(true))} />
        </div>
      )}
    </div>
  );
  return (
    <article aria-label={NAMES[speaker]} className="group/message min-w-0">
      {editing && save ? (
        <EditView text={spoken(message.parts)} save={save} close={() => setEditing(false)} label={speaker === 'user' ? 'Save and answer' : 'Save'} />
      ) : (
        <Body message={message} speaker={speaker} streaming={streaming} acts={acts} />
      )}
      <Ending told={told} streaming={streaming} rerun={acts.rerun} />
      {!editing && bar}
    </article>
  );
});

const NAMES: Record<string, string> = { user: 'You', assistant: 'Answer', system: 'System', developer: 'Developer', tool: 'Tool' };

function Body({ message, speaker, streaming, acts }: Props & { speaker: string }): ReactNode {
  const shown = groups(message.parts);
  if (speaker === 'user') {
    return <div className="ml-auto w-fit max-w-[85%] space-y-2 rounded-2xl rounded-br-md bg-accent-soft px-3.5 py-2"><Plain groups={shown} approve={acts.approve} /></div>;
  }
  if (speaker === 'system' || speaker === 'developer') {
    return (
      <div className="space-y-1 rounded-lg border border-dashed px-3 py-2 text-muted">
        <div className="text-xs font-medium text-faint">{NAMES[speaker]}</div>
        <Plain groups={shown} approve={acts.approve} />
      </div>
    );
  }
  return <Said groups={shown} streaming={streaming} approve={acts.approve} />;
}

/** What a person wrote is shown as written. */
function Plain({ groups: shown, approve }: { groups: readonly Group[]; approve: MessageActs['approve'] }): ReactNode {
  return shown.map((group, index) => {
    if (group.kind === 'files') return <FilesView key={index} files={group.parts} />;
    if (group.kind !== 'text') return <PartView key={index} group={group} streaming={false} last={false} approve={approve} />;
    return <div key={index} dir="auto" className="wrap-anywhere whitespace-pre-wrap"><LongText text={group.part.text} /></div>;
  });
}

/**
 * An answer. Once it has streamed here it is a live region, so that a screen reader reads it when it is whole:
 * while it is busy nothing is read, else every token would be.
 */
function Said({ groups: shown, streaming, approve }: { groups: readonly Group[]; streaming: boolean; approve: MessageActs['approve'] }): ReactNode {
  const [live] = useState(streaming);
  const part = (group: Group, index: number) => <PartView key={index} group={group} streaming={streaming} last={index === shown.length - 1} approve={approve} />;
  return (
    <div {...(live || streaming ? { 'aria-live': 'polite', 'aria-busy': streaming } : {})} className="min-w-0 space-y-3">
      {shown.map((group, index) => isNotice(group) && part(group, index))}
      {shown.map((group, index) => !isNotice(group) && part(group, index))}
      {streaming && <Waiting groups={shown} />}
    </div>
  );
}

/** Three dots, as long as there is nothing else that moves. */
function Waiting({ groups: shown }: { groups: readonly Group[] }): ReactNode {
  const last = shown.at(-1);
  if (last?.kind === 'text' && last.part.text !== '') return null;
  if (last?.kind === 'reasoning' && last.part.state !== 'done') return null;
  if (last?.kind === 'tool' && !last.part.state.startsWith('output')) return null;
  return (
    <div role="img" aria-label="Answering" className="flex h-6 items-center gap-1 *:size-1.5 *:animate-pulse *:rounded-full *:bg-faint">
      <span /><span className="[animation-delay:200ms]" /><span className="[animation-delay:400ms]" />
    </div>
  );
}

/** How it ended, if not as it should. */
function Ending({ told, streaming, rerun }: { told: Told; streaming: boolean; rerun: MessageActs['rerun'] }): ReactNode {
  if (streaming) return null;
  if (told.error) {
    return (
      <div role="alert" className="mt-2 flex flex-wrap items-center gap-2 rounded-lg bg-bad-soft px-3 py-2 text-bad">
        <CircleAlert aria-hidden className="size-4 shrink-0" />
        <span dir="auto" className="min-w-0 grow basis-40 wrap-anywhere whitespace-pre-wrap">
          <LongText text={told.error.message} />
          {told.error.code && <span dir="ltr" className="ml-2 font-mono text-xs opacity-70">{prose(told.error.code)}</span>}
        </span>
        {rerun && <Button size="small" onClick={() => void rerun().catch(tellError)}><RotateCw aria-hidden className="size-3.5" />Retry</Button>}
      </div>
    );
  }
  if (told.status === 'partial') {
    return <div className="mt-1 flex items-center gap-1.5 text-[13px] text-muted"><CircleStop aria-hidden className="size-3.5" />Stopped</div>;
  }
  return null;
}

function Cost({ told }: { told: Told }): ReactNode {
  const words = formatUsage(told);
  return words && <Hint text={formatUsageDetails(told)}><span className="text-xs text-faint tabular-nums">{words}</span></Hint>;
}
