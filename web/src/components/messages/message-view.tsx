/** One chat message with its actions. */
import {
  CircleAlert,
  CircleStop,
  RotateCw,
  Braces,
  Ellipsis,
  GitFork,
  ListPlus,
  MessageSquareShare,
  Pencil,
  Trash2,
  ChevronLeft,
  ChevronRight,
  ThumbsDown,
  ThumbsUp,
} from 'lucide-react';
import { Popover } from 'radix-ui';
import { memo, useState, type ReactNode, type KeyboardEvent } from 'react';
import { Button, Hint, IconButton, CopyButton } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { TextArea } from '@/components/form-fields';
import { JsonView } from '@/components/json-view';
import { Menu, MenuItem, MenuLine } from '@/components/menu';
import { LongText } from '@/components/text';
import { showError, showToast } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatUsage, formatUsageDetails } from '@/lib/format';
import { usePreferences, isSendKey } from '@/lib/preferences';
import { safeProse } from '@/lib/safe-text';
import { FilesView } from './file-view';
import type { ChatMessage, MessageActions, MessageMetadata } from './message';
import { PartView } from './part-view';
import { isNotice, groupParts, spokenText, type Group } from './parts';

/* oxlint-disable react/no-array-index-key -- parts are only ever added at the end */

interface MessageViewProps {
  message: ChatMessage;
  streaming: boolean;
  /** Must be stable between renders; a new object renders the message again. */
  actions: MessageActions;
}

const NO_METADATA: MessageMetadata = {};
const HOVER_CLASS =
  'opacity-0 transition-opacity group-focus-within/message:opacity-100 group-hover/message:opacity-100 ' +
  'has-data-[state=open]:opacity-100 pointer-coarse:opacity-100';

/** Memoized by the message object, so that a streaming neighbour does not render it again. */
export const MessageView = memo(function MessageView({ message, streaming, actions }: MessageViewProps): ReactNode {
  const [editing, setEditing] = useState(false);
  const metadata = message.metadata ?? NO_METADATA;
  const role = metadata.role ?? message.role;
  const save = actions.edit;
  const bar = (
    // The last action comes first at the right edge, next to the message.
    <div className={cn('flex min-h-7 flex-wrap items-center gap-x-2', role === 'user' && 'flex-row-reverse')}>
      <VersionsView metadata={metadata} show={actions.show} />
      <UsageText metadata={metadata} />
      {!streaming && (
        <div className={cn(HOVER_CLASS, role !== 'user' && 'first:-ml-1.5')}>
          <ActionBar message={message} actions={actions} edit={save && (() => setEditing(true))} />
        </div>
      )}
    </div>
  );
  return (
    <article aria-label={ROLE_LABELS[role]} className="group/message min-w-0">
      {editing && save ? (
        <EditView
          text={spokenText(message.parts)}
          save={save}
          close={() => setEditing(false)}
          label={role === 'user' ? 'Save and send' : 'Save'}
        />
      ) : (
        <Body message={message} role={role} streaming={streaming} actions={actions} />
      )}
      <MessageFooter metadata={metadata} streaming={streaming} rerun={actions.rerun} />
      {!editing && bar}
    </article>
  );
});

const ROLE_LABELS: Record<string, string> = {
  user: 'You',
  assistant: 'Assistant',
  system: 'System',
  developer: 'Developer',
  tool: 'Tool',
};

function Body({ message, role, streaming, actions }: MessageViewProps & { role: string }): ReactNode {
  const groups = groupParts(message.parts);
  if (role === 'user') {
    return (
      <div className="ml-auto w-fit max-w-[85%] space-y-2 rounded-2xl rounded-br-md bg-accent-soft px-3.5 py-2">
        <PlainParts groups={groups} approve={actions.approve} />
      </div>
    );
  }
  if (role === 'system' || role === 'developer') {
    return (
      <div className="space-y-1 rounded-lg border border-dashed px-3 py-2 text-muted">
        <div className="text-xs font-medium text-faint">{ROLE_LABELS[role]}</div>
        <PlainParts groups={groups} approve={actions.approve} />
      </div>
    );
  }
  return <MessageParts groups={groups} streaming={streaming} approve={actions.approve} />;
}

/** User text, shown as written. */
function PlainParts({ groups, approve }: { groups: readonly Group[]; approve: MessageActions['approve'] }): ReactNode {
  return groups.map((group, index) => {
    if (group.kind === 'files') return <FilesView key={index} files={group.parts} />;
    if (group.kind !== 'text')
      return <PartView key={index} group={group} streaming={false} last={false} approve={approve} />;
    return (
      <div key={index} dir="auto" className="wrap-anywhere whitespace-pre-wrap">
        <LongText text={group.part.text} />
      </div>
    );
  });
}

/** An answer. After streaming it is a live region, so that screen readers announce it once complete. */
function MessageParts({
  groups,
  streaming,
  approve,
}: {
  groups: readonly Group[];
  streaming: boolean;
  approve: MessageActions['approve'];
}): ReactNode {
  const [wasStreaming] = useState(streaming);
  const renderPart = (group: Group, index: number) => (
    <PartView key={index} group={group} streaming={streaming} last={index === groups.length - 1} approve={approve} />
  );
  return (
    <div
      {...(wasStreaming || streaming ? { 'aria-live': 'polite', 'aria-busy': streaming } : {})}
      className="min-w-0 space-y-3"
    >
      {groups.map((group, index) => isNotice(group) && renderPart(group, index))}
      {groups.map((group, index) => !isNotice(group) && renderPart(group, index))}
      {streaming && <TypingIndicator groups={groups} />}
    </div>
  );
}

/** Typing indicator while nothing else moves. */
function TypingIndicator({ groups }: { groups: readonly Group[] }): ReactNode {
  const last = groups.at(-1);
  if (last?.kind === 'text' && last.part.text !== '') return null;
  if (last?.kind === 'reasoning' && last.part.state !== 'done') return null;
  if (last?.kind === 'tool' && !last.part.state.startsWith('output')) return null;
  return (
    <div
      role="img"
      aria-label="Answering"
      className="flex h-6 items-center gap-1 *:size-1.5 *:animate-pulse *:rounded-full *:bg-faint"
    >
      <span />
      <span className="[animation-delay:200ms]" />
      <span className="[animation-delay:400ms]" />
    </div>
  );
}

/** How the message ended, unless normally. */
function MessageFooter({
  metadata,
  streaming,
  rerun,
}: {
  metadata: MessageMetadata;
  streaming: boolean;
  rerun: MessageActions['rerun'];
}): ReactNode {
  if (streaming) return null;
  if (metadata.error) {
    return (
      <div role="alert" className="mt-2 flex flex-wrap items-center gap-2 rounded-lg bg-bad-soft px-3 py-2 text-bad">
        <CircleAlert aria-hidden className="size-4 shrink-0" />
        <span dir="auto" className="min-w-0 grow basis-40 wrap-anywhere whitespace-pre-wrap">
          <LongText text={metadata.error.message} />
          {metadata.error.code && (
            <span dir="ltr" className="ml-2 font-mono text-xs opacity-70">
              {safeProse(metadata.error.code)}
            </span>
          )}
        </span>
        {rerun && (
          <Button size="small" onClick={() => void rerun().catch(showError)}>
            <RotateCw aria-hidden className="size-3.5" />
            Retry
          </Button>
        )}
      </div>
    );
  }
  if (metadata.status === 'partial') {
    return (
      <div className="mt-1 flex items-center gap-1.5 text-[13px] text-muted">
        <CircleStop aria-hidden className="size-3.5" />
        Stopped
      </div>
    );
  }
  return null;
}

function UsageText({ metadata }: { metadata: MessageMetadata }): ReactNode {
  const text = formatUsage(metadata);
  return (
    text && (
      <Hint text={formatUsageDetails(metadata)}>
        <span className="text-xs text-faint tabular-nums">{text}</span>
      </Hint>
    )
  );
}

interface ActionBarProps {
  message: ChatMessage;
  actions: MessageActions;
  edit: (() => void) | undefined;
}

/** Frequent actions as buttons, the rest in a menu. */
export function ActionBar({ message, actions, edit }: ActionBarProps): ReactNode {
  const { rate, rerun, fork, addToTestSet, remove, resume } = actions;
  const [showRaw, setShowRaw] = useState(false);
  const isUser = message.role !== 'assistant';
  const rerunLabel = isUser ? 'Send again' : 'Regenerate';
  return (
    <div className="flex items-center">
      {!isUser && rate && <RatingView feedback={message.metadata?.feedback} rate={rate} />}
      {isUser && edit && (
        <IconButton size="small" label="Edit" onClick={edit}>
          <Pencil />
        </IconButton>
      )}
      {rerun && (
        <IconButton size="small" label={rerunLabel} onClick={() => void rerun().catch(showError)}>
          <RotateCw />
        </IconButton>
      )}
      {resume && (
        <IconButton size="small" label="Continue from here" onClick={() => void resume().catch(showError)}>
          <MessageSquareShare />
        </IconButton>
      )}
      <CopyButton label="Copy text" text={() => spokenText(message.parts)} />
      <IconButton size="small" label="Raw JSON" onClick={() => setShowRaw(true)}>
        <Braces />
      </IconButton>
      {(fork || remove || (!isUser && edit)) && (
        <Menu
          align={isUser ? 'end' : 'start'}
          trigger={
            <IconButton size="small" label="More">
              <Ellipsis />
            </IconButton>
          }
        >
          {!isUser && edit && (
            <MenuItem icon={<Pencil />} onSelect={edit}>
              Edit
            </MenuItem>
          )}
          {fork && (
            <MenuItem icon={<GitFork />} onSelect={() => void fork().catch(showError)}>
              Fork into a new thread
            </MenuItem>
          )}
          {addToTestSet && (
            <MenuItem icon={<ListPlus />} onSelect={addToTestSet}>
              Add to test set
            </MenuItem>
          )}
          {remove && (fork || (!isUser && edit)) && <MenuLine />}
          {remove && (
            <MenuItem danger icon={<Trash2 />} onSelect={() => void remove().catch(showError)}>
              Delete
            </MenuItem>
          )}
        </Menu>
      )}
      <Dialog open={showRaw} onClose={() => setShowRaw(false)} title="Raw JSON" wide>
        {showRaw && <JsonView value={message} openLevels={3} />}
      </Dialog>
    </div>
  );
}

interface EditViewProps {
  text: string;
  save: (text: string) => Promise<void>;
  close: () => void;
  /** Label of the save button; saving a user message runs it again. */
  label: string;
}

/** Edits a message in place. The send key of the composer saves, Escape cancels. */
export function EditView({ text: initialText, save, close, label }: EditViewProps): ReactNode {
  const { send } = usePreferences();
  const [text, setText] = useState(initialText);
  const [saving, setSaving] = useState(false);
  const submit = (): void => {
    if (text.trim() === initialText.trim()) {
      close();
      return;
    }
    setSaving(true);
    save(text).then(close, (error: unknown) => {
      setSaving(false);
      showError(error);
    });
  };
  const handleKey = (event: KeyboardEvent): void => {
    if (event.key === 'Escape' && !event.nativeEvent.isComposing) {
      event.stopPropagation();
      close();
    } else if (isSendKey(event.nativeEvent, send)) {
      event.preventDefault();
      if (text.trim() && !saving) submit();
    }
  };
  return (
    <div className="w-full space-y-2">
      <TextArea
        // oxlint-disable-next-line jsx-a11y/no-autofocus -- the user has just chosen to edit
        autoFocus
        aria-label="Edit message"
        dir="auto"
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={handleKey}
        onFocus={(event) => event.target.setSelectionRange(text.length, text.length)}
      />
      <div className="flex justify-end gap-2">
        <Button size="small" variant="quiet" onClick={close}>
          Cancel
        </Button>
        <Button size="small" variant="main" disabled={saving || !text.trim()} onClick={submit}>
          {label}
        </Button>
      </div>
    </div>
  );
}

/** `‹ 2/3 ›`: switches between versions of a message. */
export function VersionsView({
  metadata,
  show,
}: {
  metadata: MessageMetadata;
  show: MessageActions['show'];
}): ReactNode {
  const siblings = metadata.siblings ?? [];
  const index = siblings.indexOf(metadata.nodes?.[0] ?? '');
  if (siblings.length < 2 || index < 0) return null;
  const versionButton = (node: string | undefined, label: string, icon: ReactNode): ReactNode => (
    <IconButton
      size="small"
      className="w-5"
      label={label}
      disabled={!node || !show}
      onClick={() => node && void show?.(node).catch(showError)}
    >
      {icon}
    </IconButton>
  );
  return (
    <div role="group" aria-label="Versions" className="flex items-center text-xs text-muted tabular-nums">
      {versionButton(siblings[index - 1], 'Previous version', <ChevronLeft />)}
      <span>
        {index + 1}/{siblings.length}
      </span>
      {versionButton(siblings[index + 1], 'Next version', <ChevronRight />)}
    </div>
  );
}

type RateFunction = NonNullable<MessageActions['rate']>;

/** Thumbs up or down with an optional comment. The rating is saved at once. */
export function RatingView({
  feedback,
  rate,
}: {
  feedback: MessageMetadata['feedback'];
  rate: RateFunction;
}): ReactNode {
  return (
    <>
      <Thumb
        rating="up"
        label="Good answer"
        isMine={feedback?.mine === 'up'}
        count={feedback?.up ?? 0}
        rate={rate}
        icon={<ThumbsUp />}
      />
      <Thumb
        rating="down"
        label="Bad answer"
        isMine={feedback?.mine === 'down'}
        count={feedback?.down ?? 0}
        rate={rate}
        icon={<ThumbsDown />}
      />
    </>
  );
}

interface ThumbProps {
  rating: 'up' | 'down';
  label: string;
  isMine: boolean;
  count: number;
  rate: RateFunction;
  icon: ReactNode;
}

function Thumb({ rating, label, isMine, count, rate, icon }: ThumbProps): ReactNode {
  const [isCommenting, setCommenting] = useState(false);
  const handleClick = (): void => {
    if (isMine) {
      setCommenting(true);
      return;
    }
    rate(rating).then(() => setCommenting(true), showError);
  };
  return (
    <Popover.Root open={isCommenting} onOpenChange={setCommenting}>
      <Popover.Anchor className="flex items-center">
        <IconButton
          size="small"
          label={label}
          aria-pressed={isMine}
          className={cn(isMine && (rating === 'up' ? '!text-good' : '!text-bad'))}
          onClick={handleClick}
        >
          {icon}
        </IconButton>
        {count > (isMine ? 1 : 0) && <span className="-ml-1 pr-1 text-xs text-faint tabular-nums">{count}</span>}
      </Popover.Anchor>
      <Popover.Portal>
        <Popover.Content
          aria-label={label}
          sideOffset={6}
          collisionPadding={8}
          className="z-50 w-80 max-w-[calc(100vw-1rem)] rounded-xl border bg-raised p-3 shadow-float"
        >
          <CommentForm rating={rating} isMine={isMine} rate={rate} close={() => setCommenting(false)} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function CommentForm({
  rating,
  isMine,
  rate,
  close,
}: {
  rating: 'up' | 'down';
  isMine: boolean;
  rate: RateFunction;
  close: () => void;
}): ReactNode {
  const [text, setText] = useState('');
  const send = (value: 'up' | 'down' | null, comment?: string): void => {
    rate(value, comment).then(() => showToast(value === null ? 'Rating removed.' : 'Comment saved.'), showError);
    close();
  };
  return (
    <form
      className="space-y-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) send(rating, text.trim());
        else close();
      }}
    >
      <TextArea
        aria-label="Comment"
        dir="auto"
        rows={3}
        value={text}
        placeholder={rating === 'up' ? 'What was good? (optional)' : 'What was wrong? (optional)'}
        onChange={(event) => setText(event.target.value)}
      />
      <div className="flex items-center gap-2">
        {isMine && (
          <Button size="small" variant="quiet" onClick={() => send(null)}>
            Remove rating
          </Button>
        )}
        <span className="grow" />
        <Button size="small" variant="quiet" onClick={close}>
          Close
        </Button>
        <Button size="small" variant="main" type="submit" disabled={!text.trim()}>
          Save
        </Button>
      </div>
    </form>
  );
}
