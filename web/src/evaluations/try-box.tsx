/** An answer that one writes, and what an evaluator would say of it. */
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { api } from '@/api/client';
import { Button } from '@/components/button';
import { Switch, TextArea, Labelled } from '@/components/form-fields';
import { Problem } from '@/components/status';
import type { Values } from './draft';
import { ScoreCard } from './score-badge';

/** What looks like an object or a list, and is JSON, is that; anything else is text. */
function read(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

export function TryBox({ evaluator, parameters, needsExpected }: { evaluator: string; parameters: Values; needsExpected: boolean }): ReactNode {
  const [answer, setAnswer] = useState('');
  const [expected, setExpected] = useState('');
  const [isChat, setIsChat] = useState(true);
  const trial = useMutation({
    mutationFn: () =>
      api('post', '/api/evaluators/{key}/try', {
        path: { key: evaluator },
        // The schema of a body gives objects of anything no keys; what is sent is what was entered.
        body: { parameters: parameters as Record<string, never>, case: { output: read(answer), flags: { is_chat: isChat }, ...(expected === '' ? {} : { expected: read(expected) }) } },
      }),
  });
  return (
    <div className="flex flex-col gap-2 pt-1 pl-5">
      <div className="grid gap-2 sm:grid-cols-2">
        <Labelled label="Answer" hint="text, or a message as JSON"><TextArea dir="auto" rows={2} value={answer} onChange={(event) => setAnswer(event.target.value)} /></Labelled>
        <Labelled label="Expected" hint={needsExpected ? '' : 'if it is needed'}><TextArea dir="auto" rows={2} value={expected} onChange={(event) => setExpected(event.target.value)} /></Labelled>
      </div>
      <div className="flex items-center gap-2">
        <Button size="small" disabled={trial.isPending} onClick={() => trial.mutate()}>Try</Button>
        <span className="grow" />
        <span className="text-[13px] text-muted">Answer of a chat</span>
        <Switch checked={isChat} onChange={setIsChat} label="Answer of a chat" />
      </div>
      {trial.error && <Problem error={trial.error} />}
      {trial.data && [trial.data, ...(trial.data.more ?? [])].map((score) => <ScoreCard key={score.evaluator} score={score} />)}
    </div>
  );
}
