/** The head of a trace's page: what it was, what it came to, and what can be done with it. */
import { useQuery } from '@tanstack/react-query';
import { ArrowLeft, ChevronDown, Download, History, Link2, ListPlus, MessageSquareShare } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { runQuery } from '@/api/queries';
import { addToTestSet } from '@/components/add-to-testset';
import { Button, IconButton, CopyButton } from '@/components/button';
import { Menu, MenuItem } from '@/components/menu';
import { Badge, Spinner } from '@/components/status';
import { tell, tellError } from '@/components/toast';
import { copyText } from '@/lib/dom';
import { formatDateTime, formatCompactNumber, formatDollars } from '@/lib/format';
import { exact } from '@/lib/safe-text';
import { rooted } from '@/lib/server-path';
import { sessionPath } from './facts';
import { statusWord } from './kinds';
import { isRunning, type Summary } from './queries';
import { lasted } from './time';

interface Props {
  summary: Summary;
  busy: boolean;
  onOpen: () => void;
}

export function TraceHeader({ summary, busy, onOpen }: Props): ReactNode {
  const { root, trace_id: id } = summary;
  return (
    <header className="shrink-0 border-b bg-surface px-4 py-2.5">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <Link href="/traces" aria-label="All traces" className="-ml-1.5 flex size-7 shrink-0 items-center justify-center rounded-lg text-muted hover:bg-sunken hover:text-ink">
          <ArrowLeft aria-hidden className="size-4" />
        </Link>
        <h1 className="min-w-0 truncate text-base font-semibold"><bdi>{exact(root.name).slice(0, 300) || 'unnamed'}</bdi></h1>
        <Badge tone={root.status === 'error' ? 'bad' : root.status === 'ok' ? 'good' : 'warn'}>{statusWord(root.status)}</Badge>
        {isRunning(summary) && <span className="flex items-center gap-1 text-xs text-muted"><Spinner label="Still running" />Still running</span>}
        <span className="grow" />
        <Button look="main" size="small" disabled={busy} onClick={onOpen}><MessageSquareShare aria-hidden className="size-3.5" />Open in playground</Button>
        <Button size="small" onClick={() => addToTestSet({ kind: 'trace', trace_id: id })}><ListPlus aria-hidden className="size-3.5" />Add to test set</Button>
        <Export id={id} />
        <IconButton size="small" label="Copy link" onClick={() => void copyText(window.location.href).then(() => tell('The link is copied.'), tellError)}><Link2 /></IconButton>
      </div>
      <Came summary={summary} />
    </header>
  );
}

function Came({ summary }: { summary: Summary }): ReactNode {
  const { root, spans, errors, input_tokens: given, output_tokens: said, cost, sessions, trace_id: id } = summary;
  const tokens = given === null && said === null ? null : (given ?? 0) + (said ?? 0);
  return (
    <dl className="mt-1 flex flex-wrap items-center gap-x-4 gap-y-0.5 text-[13px] [&_dt]:sr-only">
      {root.workflow && <Told name="Workflow"><bdi className="font-medium">{exact(root.workflow).slice(0, 100)}</bdi></Told>}
      <Told name="Started"><time dateTime={root.start} title={root.start}>{formatDateTime(root.start)}</time></Told>
      <Told name="Took">{lasted(root.duration_ms)}</Told>
      <Told name="Spans">{spans.toLocaleString('en')} {spans === 1 ? 'span' : 'spans'}</Told>
      {errors > 0 && <Told name="Errors"><span className="text-bad">{errors.toLocaleString('en')} {errors === 1 ? 'error' : 'errors'}</span></Told>}
      {tokens !== null && <Told name="Tokens"><span title={`${(given ?? 0).toLocaleString('en')} in, ${(said ?? 0).toLocaleString('en')} out`}>{formatCompactNumber(tokens)} tokens</span></Told>}
      {cost !== null && <Told name="Cost">{formatDollars(cost)}</Told>}
      {sessions.slice(0, 3).map((session) => (
        <Told key={session} name="Session">
          <Link href={sessionPath(session)} className="flex max-w-48 items-center gap-1 text-accent hover:underline"><History aria-hidden className="size-3.5 shrink-0" /><bdi className="truncate">{exact(session).slice(0, 100)}</bdi></Link>
        </Told>
      ))}
      {root.run_id && <ThreadOf run={root.run_id} />}
      <Told name="Trace id"><span className="flex items-center"><span className="font-mono text-xs text-faint">{id.slice(0, 8)}…</span><CopyButton label="Copy trace id" text={id} className="!size-6" /></span></Told>
    </dl>
  );
}

function ThreadOf({ run: id }: { run: string }): ReactNode {
  const { data } = useQuery({ ...runQuery(id), retry: false });
  return data?.thread ? <Told name="Thread"><Link href={`/play/${data.thread}`} className="text-accent hover:underline">Its thread</Link></Told> : null;
}

const Told = ({ name, children }: { name: string; children: ReactNode }): ReactNode => (
  <div className="text-muted tabular-nums">
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

function Export({ id }: { id: string }): ReactNode {
  const lines = (format: string) => () => saved(`/api/traces/export?trace=${id}&format=${format}`);
  return (
    <Menu trigger={<Button size="small"><Download aria-hidden className="size-3.5" />Export<ChevronDown aria-hidden className="size-3 text-faint" /></Button>}>
      <MenuItem onSelect={lines('jsonl')}>Records, as JSON lines</MenuItem>
      <MenuItem onSelect={lines('otlp')}>OTLP, to send elsewhere</MenuItem>
      <MenuItem onSelect={() => saved(`/api/traces/${id}/export.html`)}>A page, as HTML</MenuItem>
    </Menu>
  );
}

/** The server names the file, and says that it is one to keep. */
function saved(path: string): void {
  const link = document.createElement('a');
  link.href = rooted(path);
  link.download = '';
  link.click();
}
