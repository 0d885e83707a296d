/** A conversation as a chat. The last of a long one is shown, the rest when asked for. */
import { memo, useMemo, useState, type ReactNode } from 'react';
import type { MessageActs } from '@/chat/message';
import { MessageView } from '@/messages/message-view';
import { ToolView } from '@/messages/tool-view';
import { Button } from '@/ui/button';
import type { Item } from './steps';

const FIRST = 60;
const MORE = 200;

interface Props {
  items: readonly Item[];
  /** What stands above an item, such as where another trace begins. */
  before?: (item: Item, previous: Item | undefined) => ReactNode;
  onSpan?: (item: Item) => void;
  resume?: (item: Item) => Promise<void>;
}

export function StepsView({ items, before, onSpan, resume }: Props): ReactNode {
  const [shown, setShown] = useState(FIRST);
  const hidden = Math.max(0, items.length - shown);
  return (
    <div className="flex min-w-0 flex-col gap-4">
      {hidden > 0 && (
        <div className="flex justify-center">
          <Button size="small" look="quiet" onClick={() => setShown(shown + MORE)}>Earlier messages ({hidden})</Button>
        </div>
      )}
      {items.slice(hidden).map((item, place) => (
        <div key={item.key} className="min-w-0 [contain-intrinsic-size:auto_6rem] [content-visibility:auto]">
          {before?.(item, items[hidden + place - 1])}
          <ItemView item={item} {...(onSpan ? { onSpan } : {})} {...(resume ? { resume } : {})} />
        </div>
      ))}
    </div>
  );
}

const NOTHING: MessageActs = {};

const ItemView = memo(function ItemView({ item, onSpan, resume }: Omit<Props, 'items' | 'before'> & { item: Item }): ReactNode {
  const acts = useMemo((): MessageActs => (resume ? { resume: () => resume(item) } : NOTHING), [resume, item]);
  if (item.kind === 'said') return <MessageView message={item.message} streaming={false} acts={acts} />;
  return (
    <div className="space-y-1">
      <ToolView part={item.tool} live={false} />
      {onSpan && <Button size="small" look="quiet" onClick={() => onSpan(item)}>Show its span</Button>}
    </div>
  );
});
