/** What a workflow is, at a glance. */
import type { ReactNode } from 'react';
import type { WorkflowRow } from '@/api/types';
import { Badge } from '@/components/status';

export function ChatBadge({ workflow }: { workflow: Pick<WorkflowRow, 'is_chat' | 'is_chat_source'> }): ReactNode {
  const { is_chat: isChat, is_chat_source: source } = workflow;
  const title = source === 'declared' ? 'As it declares itself' : 'Found out from what it says of itself';
  return (
    <Badge tone={isChat ? 'accent' : 'plain'} title={title}>
      {isChat ? 'Chat' : 'Not a chat'}
      {source === 'derived' && <span className="pl-1 font-normal opacity-75">derived</span>}
    </Badge>
  );
}

export function StateBadges({ workflow }: { workflow: Pick<WorkflowRow, 'origin' | 'state' | 'default'> }): ReactNode {
  return (
    <>
      {workflow.default && <Badge title="Asked where no workflow is named">Default</Badge>}
      {workflow.origin === 'connected' && <Badge title="Runs elsewhere and is reached by its URL">Connected</Badge>}
      {workflow.state === 'unreachable' && <Badge tone="bad">Unreachable</Badge>}
    </>
  );
}
