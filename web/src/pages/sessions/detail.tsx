/** A session as one thread: its traces in order without repetition, a tab for each branch. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { GitBranch, ListTree, MessageSquareShare } from 'lucide-react';
import { useCallback, useMemo, useState, type ReactNode } from 'react';
import { Link } from 'wouter';
import { ApiError, api, type Schemas } from '@/api/client';
import { BackLink, Button, CopyButton } from '@/components/button';
import {
  stepItems,
  type StepItem,
  ConversationSteps,
  type Message,
  type Step,
} from '@/components/messages/conversation-steps';
import { useOpenInPlayground } from '@/components/open-in-playground';
import { EmptyState, LoadError, Loading } from '@/components/status';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { safeExact } from '@/lib/safe-text';
import { sessionThreadQuery } from './queries';

export function SessionDetail({ session }: { session: string }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    sessionThreadQuery(session),
  );
  const traces = data?.pages.reduce((sum, page) => sum + page.traces, 0);
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 items-center gap-2 border-b bg-surface px-4 py-2.5">
        <BackLink href="/sessions" label="All sessions" />
        <h1 className="min-w-0 truncate text-base font-semibold">
          <bdi>{safeExact(session).slice(0, 300)}</bdi>
        </h1>
        <CopyButton label="Copy session ID" text={session} />
        <span className="grow" />
        {traces !== undefined && (
          <span className="shrink-0 text-[13px] text-muted tabular-nums">
            {traces}
            {hasNextPage ? '+' : ''} {traces === 1 ? 'trace' : 'traces'}
          </span>
        )}
      </header>
      <div className="min-h-0 grow overflow-x-hidden overflow-y-auto">
        {!data && !error && <Loading className="p-6" />}
        {error instanceof ApiError && error.status === 404 ? (
          <EmptyState title="Session not found">
            Its spans have not arrived yet, or were deleted by the retention policy.
          </EmptyState>
        ) : (
          error && <LoadError error={error} onRetry={refetch} className="p-4" />
        )}
        {data?.pages.map((page, index) => (
          <Tabs
            key={page.tabs[0]?.steps[0]?.span_id ?? index}
            session={session}
            branches={sessionBranches(page.tabs)}
          />
        ))}
        {hasNextPage && (
          <div className="flex justify-center p-4">
            <Button disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
              {isFetchingNextPage ? 'Loading…' : 'Load more'}
            </Button>
          </div>
        )}
      </div>
    </div>
  );
}

function Tabs({ session, branches }: { session: string; branches: readonly SessionBranch[] }): ReactNode {
  // The last branch is where the conversation continued.
  const [selected, setSelected] = useState(branches.length - 1);
  const branch = branches[Math.min(selected, branches.length - 1)];
  if (!branch?.steps.length)
    return <EmptyState title="No conversation">The traces of this session contain no messages.</EmptyState>;
  return (
    <>
      {branches.length > 1 && (
        <div
          role="tablist"
          aria-label="Branches"
          className="sticky top-0 z-10 flex gap-1 overflow-x-auto border-b bg-surface px-4 py-1.5"
        >
          {branches.map((tabBranch, index) => (
            <button
              // oxlint-disable-next-line react/no-array-index-key -- branches have no ids
              key={index}
              type="button"
              role="tab"
              aria-selected={index === selected}
              onClick={() => setSelected(index)}
              className={cn(
                'flex h-7 shrink-0 items-center gap-1.5 rounded-lg px-2.5 text-[13px]',
                index === selected
                  ? 'bg-accent-soft font-medium text-accent'
                  : 'text-muted hover:bg-sunken hover:text-ink',
              )}
            >
              {index > 0 && <GitBranch aria-hidden className="size-3.5" />}
              {index === 0 ? 'First' : `Branch ${index}`}
              <span className="text-xs text-faint tabular-nums">{tabBranch.steps.length}</span>
            </button>
          ))}
        </div>
      )}
      <Conversation key={selected} session={session} branch={branch} />
    </>
  );
}

function Conversation({ session, branch }: { session: string; branch: SessionBranch }): ReactNode {
  const { open: openInPlayground, busy, workflowDialog } = useOpenInPlayground();
  const items = useMemo(() => stepItems(branch.steps), [branch]);
  const resume = useCallback(
    (item: StepItem) =>
      openInPlayground(async () => {
        // Workflow and inputs come from the trace, messages from what is shown.
        const target = await api('post', '/api/traces/{trace}/thread', { path: { trace: item.trace }, body: {} });
        return { ...target, messages: messagesUpTo(branch.steps, item.stepCount) };
      }, session),
    [openInPlayground, branch, session],
  );
  const before = useCallback(
    (item: StepItem, previous: StepItem | undefined) => (
      <>
        {branch.shared > 0 && item.stepCount > branch.shared && (previous?.stepCount ?? 0) <= branch.shared && (
          <BranchNote />
        )}
        {item.trace !== previous?.trace && <TraceSeparator trace={item.trace} span={item.span} />}
      </>
    ),
    [branch],
  );
  const lastItem = items.at(-1);
  return (
    <div className="mx-auto max-w-3xl px-4 py-4">
      <ConversationSteps items={items} before={before} resume={resume} />
      {lastItem && (
        <div className="mt-4 flex justify-center border-t pt-4">
          <Button variant="main" disabled={busy} onClick={() => void resume(lastItem).catch(showError)}>
            <MessageSquareShare aria-hidden className="size-4" />
            Open in playground
          </Button>
        </div>
      )}
      {workflowDialog}
    </div>
  );
}

const TraceSeparator = ({ trace, span }: { trace: string; span: string }): ReactNode => (
  <div
    className={cn(
      'mb-3 flex items-center gap-2 text-xs text-faint before:h-px',
      'before:grow before:bg-line after:h-px after:grow after:bg-line',
    )}
  >
    <Link href={`/traces/${trace}?span=${span}`} className="flex items-center gap-1 hover:text-accent">
      <ListTree aria-hidden className="size-3.5" />
      Trace <span className="font-mono">{trace.slice(0, 8)}</span>
    </Link>
  </div>
);

const BranchNote = (): ReactNode => (
  <div className="mb-3 flex items-center gap-1.5 rounded-lg bg-accent-soft px-3 py-1 text-xs text-accent">
    <GitBranch aria-hidden className="size-3.5" />
    Branched from the previous conversation
  </div>
);

export type SessionTab = Schemas['Tab'];

export interface SessionBranch {
  steps: readonly Step[];
  /** Number of messages shared with another tab. */
  shared: number;
  traces: number;
}

export function sessionBranches(tabs: readonly SessionTab[]): SessionBranch[] {
  const branches: SessionBranch[] = [];
  for (const { origin, steps } of tabs) {
    const sharedSteps = origin ? (branches[origin.tab]?.steps.slice(0, origin.steps) ?? []) : [];
    const allSteps = [...sharedSteps, ...steps];
    branches.push({
      steps: allSteps,
      shared: sharedSteps.length,
      traces: new Set(allSteps.map(({ trace_id: trace }) => trace)).size,
    });
  }
  return branches;
}

/** Messages up to a step. */
export const messagesUpTo = (steps: readonly Step[], stepCount: number): Message[] =>
  steps.slice(0, stepCount).flatMap((step) => (step.type === 'message' ? [step.message] : []));

/** Session name from the URL. Parsed by hand, because the router decodes partially and would merge two names. */
export function sessionFromPath(path: string, search: string): string | null {
  const session = new URLSearchParams(search).get('session');
  if (session) return session;
  const encoded = /\/sessions\/([^/]+)\/?$/.exec(path)?.[1];
  if (encoded === undefined) return null;
  try {
    return decodeURIComponent(encoded);
  } catch {
    return encoded;
  }
}
