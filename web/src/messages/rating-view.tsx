/** Thumbs up or down, and a word about why. The rating counts at once; the comment may follow. */
import { ThumbsDown, ThumbsUp } from 'lucide-react';
import { Popover } from 'radix-ui';
import { useState, type ReactNode } from 'react';
import type { MessageActs, Told } from '@/chat/message';
import { classes } from '@/lib/class-names';
import { Button, IconButton } from '@/ui/button';
import { TextArea } from '@/ui/fields';
import { tell, tellError } from '@/ui/toast';

type Rate = NonNullable<MessageActs['rate']>;

export function RatingView({ feedback, rate }: { feedback: Told['feedback']; rate: Rate }): ReactNode {
  return (
    <>
      <Thumb rating="up" label="Good answer" mine={feedback?.mine === 'up'} count={feedback?.up ?? 0} rate={rate} icon={<ThumbsUp />} />
      <Thumb rating="down" label="Bad answer" mine={feedback?.mine === 'down'} count={feedback?.down ?? 0} rate={rate} icon={<ThumbsDown />} />
    </>
  );
}

interface Props {
  rating: 'up' | 'down';
  label: string;
  mine: boolean;
  count: number;
  rate: Rate;
  icon: ReactNode;
}

function Thumb({ rating, label, mine, count, rate, icon }: Props): ReactNode {
  const [asking, setAsking] = useState(false);
  const press = (): void => {
    if (mine) {
      setAsking(true);
      return;
    }
    rate(rating).then(() => setAsking(true), tellError);
  };
  return (
    <Popover.Root open={asking} onOpenChange={setAsking}>
      <Popover.Anchor className="flex items-center">
        <IconButton size="small" label={label} aria-pressed={mine} className={classes(mine && (rating === 'up' ? '!text-good' : '!text-bad'))} onClick={press}>{icon}</IconButton>
        {count > (mine ? 1 : 0) && <span className="-ml-1 pr-1 text-xs text-faint tabular-nums">{count}</span>}
      </Popover.Anchor>
      <Popover.Portal>
        <Popover.Content aria-label={label} sideOffset={6} collisionPadding={8} className="z-50 w-80 max-w-[calc(100vw-1rem)] rounded-xl border bg-raised p-3 shadow-float">
          <Comment rating={rating} mine={mine} rate={rate} close={() => setAsking(false)} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Comment({ rating, mine, rate, close }: { rating: 'up' | 'down'; mine: boolean; rate: Rate; close: () => void }): ReactNode {
  const [text, setText] = useState('');
  const send = (chosen: 'up' | 'down' | null, comment?: string): void => {
    rate(chosen, comment).then(() => tell(chosen === null ? 'Rating taken back' : 'Comment kept'), tellError);
    close();
  };
  return (
    <form
      className="space-y-2"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) send(rating, text.trim());
        else close();
      }}
    >
      <TextArea
        aria-label="Comment"
        dir="auto"
        rows={3}
        value={text}
        placeholder={rating === 'up' ? 'What was good? (optional)' : 'What was wrong? (optional)'}
        onChange={(event) => setText(event.target.value)}
      />
      <div className="flex items-center gap-2">
        {mine && <Button size="small" look="quiet" onClick={() => send(null)}>Take back</Button>}
        <span className="grow" />
        <Button size="small" look="quiet" onClick={close}>Close</Button>
        <Button size="small" look="main" type="submit" disabled={!text.trim()}>Save</Button>
      </div>
    </form>
  );
}
