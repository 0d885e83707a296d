/** One group of a message's parts. While a message streams its parts are new objects with every token: only what changed is drawn. */
import { ShieldAlert } from 'lucide-react';
import { memo, type ReactNode } from 'react';
import { unreachable } from '@/lib/unreachable';
import { DataView } from './data-view';
import { FilesView } from './file-view';
import { Markdown } from './markdown/markdown';
import { refused } from './part-groups';
import { unchanged, type PartProps } from './part-same';
import { ReasoningView } from './reasoning-view';
import { SourcesView } from './sources-view';
import { ToolView } from './tool-view';

export const PartView = memo(function PartView({ group, streaming, last, approve }: PartProps): ReactNode {
  switch (group.kind) {
    case 'text': {
      const text = <Markdown text={group.part.text} streaming={streaming && last} />;
      return refused(group.part) ? <Refusal>{text}</Refusal> : text;
    }
    case 'reasoning':
      return <ReasoningView text={group.part.text} streaming={streaming && last && group.part.state !== 'done'} />;
    case 'tool':
      return <ToolView part={group.part} live={streaming} {...(approve ? { approve } : {})} />;
    case 'data':
      return <DataView part={group.part} />;
    case 'sources':
      return <SourcesView sources={group.parts} />;
    case 'files':
      return <FilesView files={group.parts} />;
    default:
      return unreachable(group);
  }
}, unchanged);

const Refusal = ({ children }: { children: ReactNode }): ReactNode => (
  <div className="rounded-xl border border-warn/40 bg-warn-soft px-3 py-2">
    <div className="mb-1 flex items-center gap-1.5 text-xs font-medium text-warn"><ShieldAlert aria-hidden className="size-4" />Refused</div>
    {children}
  </div>
);
