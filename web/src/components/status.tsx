/** Badges, spinners, empty and error states. */
import { LoaderCircle } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { cn } from '@/lib/cn';
import { Button } from './button';

const TONES = {
  plain: 'bg-sunken text-muted',
  accent: 'bg-accent-soft text-accent',
  good: 'bg-good-soft text-good',
  bad: 'bg-bad-soft text-bad',
  warn: 'bg-warn-soft text-warn',
};

export function Badge({
  tone = 'plain',
  children,
  title,
}: {
  tone?: keyof typeof TONES;
  children: ReactNode;
  title?: string;
}): ReactNode {
  return (
    <span
      title={title}
      className={cn('inline-flex h-5 shrink-0 items-center rounded-full px-2 text-xs font-medium', TONES[tone])}
    >
      {children}
    </span>
  );
}

export const Spinner = ({ label = 'Loading' }: { label?: string }): ReactNode => (
  <LoaderCircle role="status" aria-label={label} className="size-4 animate-spin text-faint" />
);

/** A spinner in a box, in the place of content that is loading. */
export const Loading = ({ className }: { className: string }): ReactNode => (
  <div className={className}>
    <Spinner />
  </div>
);

export const Kbd = ({ children }: { children: ReactNode }): ReactNode => (
  <kbd className="rounded-md border bg-surface px-1.5 py-0.5 font-sans text-xs text-muted">{children}</kbd>
);

/** Placeholder of an empty list: what belongs here and how to create it. */
export function EmptyState({
  title,
  children,
  icon,
}: {
  title: string;
  children?: ReactNode;
  icon?: ReactNode;
}): ReactNode {
  return (
    <div
      className={cn(
        'mx-auto flex max-w-md flex-col items-center gap-2 px-6',
        'py-16 text-center [&>svg]:size-8 [&>svg]:text-faint',
      )}
    >
      {icon}
      <h2 className="text-base font-semibold">{title}</h2>
      <div className="text-muted">{children}</div>
    </div>
  );
}

/** An error in one line, with actions. */
export function ErrorMessage({ error, children }: { error: unknown; children?: ReactNode }): ReactNode {
  return (
    <div role="alert" className="flex flex-wrap items-center gap-2 rounded-lg bg-bad-soft px-3 py-2 text-bad">
      <span className="min-w-0 grow wrap-anywhere" dir="auto">
        <FailureText text={error instanceof Error ? error.message : String(error)} />
      </span>
      {children}
    </div>
  );
}

/** A message. The address of a trace at its end, which a local server adds to failures, becomes a link on this page. */
export function FailureText({ text }: { text: string }): ReactNode {
  const [, message, path] = /^(.*) Trace: https?:\/\/\S+?(\/traces\/[0-9a-f]{32})$/s.exec(text) ?? [];
  if (!message || !path) return text;
  return (
    <>
      {message}{' '}
      <Link href={path} className="underline underline-offset-2">
        View trace
      </Link>
    </>
  );
}

/** An error of a query with a button to try again. `className` styles a box around it. */
export function LoadError({
  error,
  onRetry,
  className,
}: {
  error: unknown;
  onRetry: () => unknown;
  className?: string;
}): ReactNode {
  const problem = (
    <ErrorMessage error={error}>
      <Button size="small" onClick={() => void onRetry()}>
        Retry
      </Button>
    </ErrorMessage>
  );
  return className ? <div className={className}>{problem}</div> : problem;
}

/** Below a list: fetches its next page. */
export const MoreButton = ({
  busy,
  onClick,
  className,
}: {
  busy: boolean;
  onClick: () => unknown;
  className: string;
}): ReactNode => (
  <div className={className}>
    <Button size="small" disabled={busy} onClick={() => void onClick()}>
      Load more
    </Button>
  </div>
);

/** At the end of a table whose next page could not be fetched. */
export const MoreError = ({ onRetry }: { onRetry: () => void }): ReactNode => (
  <>
    Couldn’t load more.
    <Button size="small" onClick={onRetry}>
      Retry
    </Button>
  </>
);
