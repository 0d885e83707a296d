/** Shown while there are no workflows: how to create one. */
import { useQuery } from '@tanstack/react-query';
import { Plug, Workflow } from 'lucide-react';
import { lazy, Suspense, useState, type ReactNode } from 'react';
import { workflowsQuery } from '@/api/queries';
import { useIsAdmin } from '@/app/auth';
import { Button, CopyButton } from '@/components/button';
import { EmptyState } from '@/components/status';

const ConnectDialog = lazy(() => import('./connect-dialog'));

const PROGRAM = `from palaver import Message, chat

@chat
def parrot(messages: list[Message]) -> str:
    """Repeat the last message."""
    return messages[-1].text
`;
const COMMAND = 'palaver serve app.py';

/** Waits for bootstrap (`ready`), which usually has the answer. */
export function useHasNoWorkflows(ready: boolean): boolean {
  const { data } = useQuery({ ...workflowsQuery(), enabled: ready });
  return data?.data.length === 0;
}

export function NoWorkflows(): ReactNode {
  const isAdmin = useIsAdmin();
  const [connecting, setConnecting] = useState(false);
  return (
    <EmptyState icon={<Workflow aria-hidden />} title="No workflows yet">
      <p>A workflow is a function that receives messages. Save these lines as app.py:</p>
      <Sample code={PROGRAM} />
      <p>Then serve it:</p>
      <Sample code={COMMAND} />
      {isAdmin && (
        <>
          <p className="pb-3">Or connect a service that is already running:</p>
          <Button onClick={() => setConnecting(true)}>
            <Plug aria-hidden className="size-4" /> Connect a service
          </Button>
          <Suspense>{connecting && <ConnectDialog onClose={() => setConnecting(false)} />}</Suspense>
        </>
      )}
    </EmptyState>
  );
}

function Sample({ code }: { code: string }): ReactNode {
  return (
    <div className="relative my-3 rounded-xl border bg-surface text-left">
      <pre className="overflow-x-auto px-4 py-3 pr-10 font-mono text-[13px] text-ink">{code.trimEnd()}</pre>
      <CopyButton text={code} className="absolute top-1.5 right-1.5" />
    </div>
  );
}
