/** `‹ 2/3 ›`: the versions of a message, and the way to the ones beside it. */
import { ChevronLeft, ChevronRight } from 'lucide-react';
import type { ReactNode } from 'react';
import type { MessageActs, Told } from '@/chat/message';
import { IconButton } from '@/ui/button';
import { tellError } from '@/ui/toast';

export function VersionsView({ told, show }: { told: Told; show: MessageActs['show'] }): ReactNode {
  const siblings = told.siblings ?? [];
  const at = siblings.indexOf(told.nodes?.[0] ?? '');
  if (siblings.length < 2 || at < 0) return null;
  const go = (to: string | undefined, label: string, icon: ReactNode): ReactNode => (
    <IconButton size="small" className="!w-5" label={label} disabled={!to || !show} onClick={() => to && void show?.(to).catch(tellError)}>{icon}</IconButton>
  );
  return (
    <div role="group" aria-label="Versions" className="flex items-center text-xs text-muted tabular-nums">
      {go(siblings[at - 1], 'Version before', <ChevronLeft />)}
      <span>{at + 1}/{siblings.length}</span>
      {go(siblings[at + 1], 'Next version', <ChevronRight />)}
    </div>
  );
}
