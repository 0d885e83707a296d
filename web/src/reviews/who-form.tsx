/** Where the server has no keys, nobody knows who is there: they say it once. */
import { UserRound } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { focused } from '@/lib/dom';
import { Empty } from '@/components/status';
import { Button } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { LONGEST_NAME, readReviewer } from './reviewer';

export function WhoForm({ onName }: { onName: (name: string) => void }): ReactNode {
  const [text, setText] = useState(() => readReviewer() ?? '');
  const name = text.trim();
  return (
    <Empty title="Who are you?" icon={<UserRound />}>
      <p>Your answers are kept under your name, to be compared with those of others.</p>
      <form
        className="mt-4 flex gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (name) onName(name);
        }}
      >
        <TextField ref={focused} dir="auto" aria-label="Your name" placeholder="Your name" maxLength={LONGEST_NAME} autoComplete="nickname" value={text} onChange={(event) => setText(event.target.value)} />
        <Button type="submit" look="main" disabled={!name}>Begin</Button>
      </form>
    </Empty>
  );
}
