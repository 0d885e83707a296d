/** Detail of a workflow: facts, evidence, schemas and snippets. */
import { useQuery } from '@tanstack/react-query';
import { ArrowLeft, MessageSquareText, Play, RefreshCw } from 'lucide-react';
import { Tabs } from 'radix-ui';
import { useEffect, useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import type { Workflow, WorkflowRow } from '@/api/client';
import { workflowQuery } from '@/api/queries';
import { completeStep } from '@/app/tour/progress';
import { Button, CopyButton } from '@/components/button';
import { CodeBlock } from '@/components/markdown/code-block';
import { Badge, ErrorMessage, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { formatDateTime, formatTimeAgo } from '@/lib/format';
import { useRefresh } from './connections';
import { parseEvidence, servedVerdict, EvidenceView } from './evidence';
import { SchemaView } from './schema-view';

export function WorkflowDetail({ name }: { name: string }): ReactNode {
  const { data, error, refetch } = useQuery(workflowQuery(name));
  return (
    <div className="mx-auto max-w-4xl px-4 py-6 sm:px-8">
      <Link href="/workflows" className="inline-flex items-center gap-1 rounded text-[13px] text-muted hover:text-ink">
        <ArrowLeft aria-hidden className="size-3.5" /> Workflows
      </Link>
      <div className="pt-3">
        {data ? (
          <WorkflowView workflow={data} />
        ) : error ? (
          <ErrorMessage error={error}>
            <Button size="small" onClick={() => void refetch()}>
              Retry
            </Button>
          </ErrorMessage>
        ) : (
          <Spinner />
        )}
      </div>
    </div>
  );
}

function WorkflowView({ workflow }: { workflow: Workflow }): ReactNode {
  const evidence = parseEvidence(workflow.evidence);
  useEffect(() => {
    // The fragment's element was not rendered when the browser looked for it.
    document.getElementById(window.location.hash.slice(1))?.scrollIntoView();
  }, []);
  return (
    <div className="flex flex-col gap-8">
      <WorkflowHeader workflow={workflow} />
      <DetailSection title="Overview">
        {evidence ? (
          <EvidenceView evidence={evidence} />
        ) : (
          <p>{servedVerdict(workflow.is_chat, workflow.is_chat_source)}</p>
        )}
        <Facts workflow={workflow} />
      </DetailSection>
      <DetailSection title="Inputs and outputs">
        <SchemaView title="Inputs" schema={workflow.schemas.inputs} emptyText="No input schema." />
        <SchemaView title="Parameters" schema={workflow.schemas.parameters} emptyText="No parameters." />
        <SchemaView title="Outputs" schema={workflow.schemas.outputs} emptyText="No output schema." />
      </DetailSection>
      <DetailSection title="Variants">
        <ul className="flex flex-wrap gap-2">
          {workflow.variants.map(({ id, name, head }) => (
            <li key={id} className="flex max-w-full items-center gap-2 rounded-lg border bg-surface px-2.5 py-1">
              <span className="truncate" title={name}>
                {name}
              </span>
              <Badge title="Latest version">v{head}</Badge>
            </li>
          ))}
        </ul>
      </DetailSection>
      <DetailSection title="API" id="call">
        <Snippets snippets={workflow.snippets} />
      </DetailSection>
      <DetailSection title="Routes">
        <Routes routes={workflow.routes} />
      </DetailSection>
    </div>
  );
}

function WorkflowHeader({ workflow }: { workflow: Workflow }): ReactNode {
  const [, navigate] = useLocation();
  const [isRefreshing, refresh] = useRefresh(workflow.name);
  return (
    <header className="flex flex-wrap items-start gap-x-6 gap-y-4">
      <div className="min-w-0 grow basis-80">
        <div className="flex flex-wrap items-center gap-2">
          <h1 className="min-w-0 text-xl font-semibold wrap-anywhere">{workflow.name}</h1>
          <ChatBadge workflow={workflow} />
          <StateBadges workflow={workflow} />
        </div>
        <p className="pt-1 whitespace-pre-line text-muted wrap-anywhere" dir="auto">
          {workflow.description || 'No description.'}
        </p>
        {workflow.origin === 'connected' && (
          <p
            className={cn(
              'flex flex-wrap items-center gap-2 pt-2',
              workflow.state === 'ready' ? 'text-muted' : 'text-bad',
            )}
          >
            <span {...(workflow.checked_at ? { title: formatDateTime(workflow.checked_at) } : {})}>
              {workflow.state === 'unreachable' ? 'No response when last checked' : 'Last checked'}
              {workflow.checked_at && ` ${formatTimeAgo(workflow.checked_at)}`}.
            </span>
            <Button size="small" disabled={isRefreshing} onClick={refresh}>
              <RefreshCw aria-hidden className={cn('size-3.5', isRefreshing && 'animate-spin')} /> Refresh
            </Button>
          </p>
        )}
        {workflow.problem && (
          <p className="pt-1 text-bad wrap-anywhere" dir="auto">
            {workflow.problem}
          </p>
        )}
      </div>
      <Button
        variant="main"
        className="h-10 px-5"
        onClick={() => navigate(`/play?workflow=${encodeURIComponent(workflow.name)}`)}
      >
        {workflow.is_chat ? (
          <MessageSquareText aria-hidden className="size-4.5" />
        ) : (
          <Play aria-hidden className="size-4.5" />
        )}
        Open in playground
      </Button>
    </header>
  );
}

const TURN_LABELS = {
  reject: 'reject',
  queue: 'queue',
  interrupt: 'interrupt the current answer',
};
const DISCONNECT_LABELS = { cancel: 'cancel the run', finish: 'finish the run' };

function Facts({ workflow }: { workflow: Workflow }): ReactNode {
  const facts: [string, ReactNode][] = [
    ['Streaming', workflow.streams ? 'yes' : 'no'],
    ['Concurrent turns', TURN_LABELS[workflow.turns]],
    ['On disconnect', workflow.on_disconnect ? DISCONNECT_LABELS[workflow.on_disconnect] : 'protocol default'],
    [
      'Flags',
      <code key="flags" className="font-mono text-[13px]">
        {Object.entries(workflow.flags)
          .map(([name, value]) => `${name}: ${value}`)
          .join(', ') || 'none'}
      </code>,
    ],
  ];
  return (
    <dl className="grid gap-x-4 gap-y-1 sm:grid-cols-[12rem_1fr]">
      {facts.map(([name, value]) => (
        <div key={name} className="contents">
          <dt className="text-muted">{name}</dt>
          <dd className="min-w-0 pb-1 wrap-anywhere sm:pb-0">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const PROTOCOL_LABELS: Record<string, string> = {
  invoke: 'Invoke',
  responses: 'OpenAI Responses',
  invocations: 'MLflow invocations',
  chat_completions: 'OpenAI Chat Completions',
  ui_stream: 'AI SDK useChat',
  services: 'OpenFn services',
};

const Routes = ({ routes }: { routes: Workflow['routes'] }): ReactNode => (
  <ul className="divide-y divide-line rounded-lg border bg-surface">
    {Object.entries(routes).map(([name, url]) => (
      <li key={name} className="flex items-center gap-3 py-1 pr-1.5 pl-3">
        <div className="grid min-w-0 grow gap-x-4 sm:grid-cols-[12rem_1fr]">
          <span>{PROTOCOL_LABELS[name] ?? name}</span>
          <code className="truncate font-mono text-[13px] text-muted" title={url}>
            {url}
          </code>
        </div>
        <CopyButton text={url} label={`Copy URL for ${PROTOCOL_LABELS[name] ?? name}`} />
      </li>
    ))}
  </ul>
);

const DetailSection = ({ title, id, children }: { title: string; id?: string; children: ReactNode }): ReactNode => (
  <section id={id} className="flex scroll-mt-6 flex-col gap-3">
    <h2 className="border-b pb-1 text-base font-semibold">{title}</h2>
    {children}
  </section>
);

export function ChatBadge({ workflow }: { workflow: Pick<WorkflowRow, 'is_chat' | 'is_chat_source'> }): ReactNode {
  const { is_chat: isChat, is_chat_source: source } = workflow;
  const title = source === 'declared' ? 'Declared by the workflow' : 'Inferred, not declared';
  return (
    <Badge tone={isChat ? 'accent' : 'plain'} title={title}>
      {isChat ? 'Chat' : 'Single-turn'}
      {source === 'derived' && <span className="pl-1 font-normal opacity-75">inferred</span>}
    </Badge>
  );
}

export function StateBadges({ workflow }: { workflow: Pick<WorkflowRow, 'origin' | 'state' | 'default'> }): ReactNode {
  return (
    <>
      {workflow.default && <Badge title="Used when a request does not name a workflow">Default</Badge>}
      {workflow.origin === 'connected' && <Badge title="Remote service">Connected</Badge>}
      {workflow.state === 'unreachable' && <Badge tone="bad">Unreachable</Badge>}
      {workflow.state === 'unavailable' && <Badge tone="bad">Unavailable</Badge>}
    </>
  );
}

type Snippet = Workflow['snippets'][number];

const CLIENT_LABELS: Record<Snippet['client'], string> = {
  curl: 'curl',
  'openai-python': 'OpenAI Python',
  'openai-node': 'OpenAI Node',
  'ai-sdk': 'AI SDK',
  langchain: 'LangChain',
};

/** Ready-to-copy programs that call the workflow. */
export function Snippets({ snippets }: { snippets: readonly Snippet[] }): ReactNode {
  const [selectedClient, setSelectedClient] = useState<string>(snippets[0]?.client ?? '');
  const usesKey = snippets.some(({ code }) => code.includes('PALAVER_KEY'));
  return (
    <Tabs.Root value={selectedClient} onValueChange={setSelectedClient} className="flex flex-col gap-2">
      <Tabs.List aria-label="Client" className="flex gap-1 overflow-x-auto pb-0.5">
        {snippets.map(({ client }) => (
          <Tabs.Trigger
            key={client}
            value={client}
            className={cn(
              'h-7 shrink-0 rounded-lg px-2.5 text-[13px] whitespace-nowrap text-muted',
              '-outline-offset-2 hover:text-ink data-[state=active]:bg-accent-soft',
              'data-[state=active]:font-medium data-[state=active]:text-accent',
            )}
          >
            {CLIENT_LABELS[client] ?? client}
          </Tabs.Trigger>
        ))}
      </Tabs.List>
      {snippets.map(({ client, language, code }) => (
        <Tabs.Content key={client} value={client} className="min-w-0" tabIndex={-1}>
          <CodeBlock text={code.trimEnd()} language={language} onCopied={() => completeStep('call')} />
        </Tabs.Content>
      ))}
      {usesKey && (
        <p className="text-xs text-muted">
          Set the environment variable <code className="font-mono">PALAVER_KEY</code> to your API key first.
        </p>
      )}
    </Tabs.Root>
  );
}
