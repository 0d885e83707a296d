/**
 * Table cell with a preview of a conversation, text or JSON. Hover, focus or click opens the full value: what
 * `renderFull` renders (called only then, it may fetch), else the whole preview.
 */
import { HoverCard } from 'radix-ui';
import { useState, type ReactNode } from 'react';
import type { Preview } from '@/api/client';
import { cn } from '@/lib/cn';
import { safeProse } from '@/lib/safe-text';
import { unreachable } from '@/lib/unreachable';

interface Props {
  preview: Preview;
  /** Accessible name: "Input of row 3". */
  label: string;
  renderFull?: () => ReactNode;
  /** One line for lists, about ten lines for tall rows. */
  size?: 'line' | 'block';
  /** -1 to skip it with Tab: in a long table only the active row is reachable. */
  tabIndex?: number;
}

export const SIDE_LABELS = { in: 'Input', out: 'Output' };

interface SideProps {
  preview: Preview;
  side: 'in' | 'out';
  row: number;
  /** Whether the row is the active one: only that is reachable with Tab. */
  active: boolean;
  renderFull: () => ReactNode;
}

/** One line with the input or output of a list row. */
export function SidePreviewCell({ side, row, active, ...props }: SideProps): ReactNode {
  return (
    <PreviewCell size="line" tabIndex={active ? 0 : -1} label={`${SIDE_LABELS[side]} of row ${row + 1}`} {...props} />
  );
}

export function PreviewCell({ preview, label, renderFull, size = 'block', tabIndex = 0 }: Props): ReactNode {
  const [open, setOpen] = useState(false);
  if (preview.renderer === 'empty') return <span className="text-faint">Empty</span>;
  return (
    <HoverCard.Root open={open} onOpenChange={setOpen} openDelay={400} closeDelay={150}>
      <HoverCard.Trigger asChild>
        {/* Touch has no hover: a click opens it, too. */}
        <button
          type="button"
          tabIndex={tabIndex}
          aria-expanded={open}
          onClick={() => setOpen(true)}
          className="block w-full min-w-0 rounded-md text-start"
        >
          <span className="sr-only">{label}: </span>
          {size === 'line' ? (
            <span className="block truncate" dir="auto">
              {safeProse(preview.text)}
            </span>
          ) : (
            <span className="relative block max-h-56 overflow-hidden">
              <PreviewView preview={preview} />
            </span>
          )}
        </button>
      </HoverCard.Trigger>
      <HoverCard.Portal>
        <HoverCard.Content
          align="start"
          sideOffset={6}
          collisionPadding={8}
          onEscapeKeyDown={() => setOpen(false)}
          className={cn(
            'z-50 max-h-[min(70dvh,var(--radix-hover-card-content-available-height))] w-max',
            'max-w-[min(40rem,calc(100vw-1rem))] overflow-y-auto rounded-xl border bg-raised p-3 shadow-float',
          )}
        >
          {renderFull ? renderFull() : <PreviewView preview={preview} isExpanded />}
        </HoverCard.Content>
      </HoverCard.Portal>
    </HoverCard.Root>
  );
}

/** A preview without the button and its hover card. */
export function PreviewView({ preview, isExpanded = false }: { preview: Preview; isExpanded?: boolean }): ReactNode {
  switch (preview.renderer) {
    case 'empty':
      return <span className="text-faint">Empty</span>;
    case 'text':
      return (
        <span dir="auto" className="block wrap-anywhere whitespace-pre-wrap">
          {safeProse(preview.body)}
          <OmittedCount preview={preview} />
        </span>
      );
    case 'json':
      return (
        <span className="block font-mono text-[12px]/5 wrap-anywhere whitespace-pre-wrap">
          {safeProse(isExpanded ? formatJsonText(preview.body) : preview.body)}
          <OmittedCount preview={preview} />
        </span>
      );
    case 'chat':
      return (
        <span className="flex flex-col gap-1.5">
          {preview.messages.map((message) => (
            <Bubble key={message.index} message={message} isExpanded={isExpanded} />
          ))}
          <OmittedCount preview={preview} />
        </span>
      );
    default:
      return unreachable(preview);
  }
}

type PreviewMessage = Extract<Preview, { renderer: 'chat' }>['messages'][number];

function Bubble({ message, isExpanded }: { message: PreviewMessage; isExpanded: boolean }): ReactNode {
  return (
    <span className={cn('block rounded-lg px-2 py-1', message.role === 'user' ? 'bg-accent-soft' : 'bg-sunken')}>
      <span className="block text-[11px]/4 text-muted">{message.role}</span>
      {message.text && (
        <span dir="auto" className={cn('wrap-anywhere whitespace-pre-wrap', isExpanded ? 'block' : 'line-clamp-4')}>
          {safeProse(message.text)}
          {message.cut > 0 && '…'}
        </span>
      )}
      {message.calls.map((call, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same call may come twice
        <span key={index} className="block truncate font-mono text-[12px]/5 text-muted">
          {safeProse(call)}
        </span>
      ))}
      {message.attachments > 0 && (
        <span className="block text-xs text-muted">{formatCount(message.attachments, 'attachment')}</span>
      )}
    </span>
  );
}

function OmittedCount({ preview }: { preview: Preview }): ReactNode {
  const { characters, messages } = omittedCount(preview);
  if (messages) return <span className="block text-xs text-faint">+{formatCount(messages, 'more message')}</span>;
  if (characters && preview.renderer !== 'chat')
    return <bdi className="text-xs text-faint">… +{formatCount(characters, 'character')}</bdi>;
  return null;
}

const formatCount = (number: number, noun: string): string =>
  `${number.toLocaleString('en')} ${noun}${number === 1 ? '' : 's'}`;

const RENDERERS: readonly unknown[] = ['chat', 'text', 'json', 'empty'] satisfies Preview['renderer'][];

/** Parse the preview of a row; unknown kinds become empty. */
export function parsePreview(value: unknown): Preview {
  if (typeof value === 'object' && value !== null && 'renderer' in value && RENDERERS.includes(value.renderer))
    return value as Preview;
  return { renderer: 'empty', text: '' };
}

/** Number of omitted characters and messages. */
export function omittedCount(preview: Preview): { characters: number; messages: number } {
  switch (preview.renderer) {
    case 'chat':
      return { characters: preview.messages.reduce((sum, { cut }) => sum + cut, 0), messages: preview.more };
    case 'text':
    case 'json':
      return { characters: preview.cut, messages: 0 };
    case 'empty':
      return { characters: 0, messages: 0 };
    default:
      return unreachable(preview) ?? { characters: 0, messages: 0 };
  }
}

/** Whether the preview has the whole value. */
export function isComplete(preview: Preview): boolean {
  const { characters, messages } = omittedCount(preview);
  return characters === 0 && messages === 0;
}

/** Indent complete JSON; cut JSON stays as it is. */
export function formatJsonText(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
