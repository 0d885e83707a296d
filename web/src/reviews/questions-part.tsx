/** What people are asked: questions of four kinds, or those that the evaluation itself has for people. */
import { Plus, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { Button, IconButton } from '@/components/button';
import { FormPart, Select, TextArea, TextField, Labelled } from '@/components/form-fields';
import { Segments } from '@/components/segmented-control';
import { begun, KINDS, questionOf, slug, type Kind, type QuestionDraft } from './draft';

type Questions = readonly QuestionDraft[] | null;
const WHOSE = { run: 'Those of the evaluation', own: 'My own' };

export function QuestionsPart({ questions, ofRun, onChange }: { questions: Questions; ofRun: boolean; onChange: (questions: Questions) => void }): ReactNode {
  const all = questions ?? [];
  return (
    <FormPart title="Questions" hint="What people are asked about each answer.">
      {ofRun && (
        <div className="mb-2"><Segments label="Whose questions" options={WHOSE} value={questions ? 'own' : 'run'} onChange={(whose) => onChange(whose === 'run' ? null : begun(null).questions)} /></div>
      )}
      {questions === null && <p className="text-[13px] text-muted">What people say becomes the score that the evaluation’s own <code className="font-mono text-xs">human</code> evaluators wait for.</p>}
      <div className="flex flex-col gap-2">
        {all.map((draft, place) => (
          <QuestionForm key={draft.id} draft={draft} place={place} onChange={(next) => onChange(all.with(place, next))} {...(all.length > 1 ? { onRemove: () => onChange(all.toSpliced(place, 1)) } : {})} />
        ))}
      </div>
      {questions && all.length < 50 && <Button size="small" className="mt-2" onClick={() => onChange([...all, questionOf()])}><Plus aria-hidden className="size-3.5" />Add a question</Button>}
    </FormPart>
  );
}

interface Props {
  draft: QuestionDraft;
  place: number;
  onChange: (draft: QuestionDraft) => void;
  onRemove?: () => void;
}

function QuestionForm({ draft, place, onChange, onRemove }: Props): ReactNode {
  const change = (what: Partial<QuestionDraft>) => onChange({ ...draft, ...what });
  return (
    <div role="group" aria-label={`Question ${place + 1}`} className="relative flex min-w-0 flex-col gap-3 rounded-xl border px-3 py-2.5">
      <div className="grid gap-3 sm:grid-cols-[minmax(0,1fr)_9rem_9rem] sm:pr-8">
        <div className="max-sm:pr-8"><Labelled label="Question"><TextField dir="auto" maxLength={500} placeholder="Is it polite?" value={draft.title} onChange={({ target }) => change({ title: target.value })} /></Labelled></div>
        <Labelled label="Answer">
          <Select value={draft.type} onChange={({ target }) => change({ type: target.value as Kind })}>
            {Object.entries(KINDS).map(([kind, word]) => <option key={kind} value={kind}>{word}</option>)}
          </Select>
        </Labelled>
        <Labelled label="Key" hint="in tables"><TextField dir="auto" maxLength={100} placeholder={slug(draft.title)} value={draft.key} onChange={({ target }) => change({ key: target.value })} /></Labelled>
      </div>
      {draft.type === 'choice' && <Labelled label="Choices" hint="one a line"><TextArea dir="auto" rows={3} placeholder={'kind\nneutral\nrude'} value={draft.choices} onChange={({ target }) => change({ choices: target.value })} /></Labelled>}
      {draft.type === 'score' && (
        <div className="flex gap-3">
          <Labelled label="Lowest"><TextField type="number" step="any" className="!w-24" value={draft.least} onChange={({ target }) => change({ least: target.value })} /></Labelled>
          <Labelled label="Highest"><TextField type="number" step="any" className="!w-24" value={draft.most} onChange={({ target }) => change({ most: target.value })} /></Labelled>
        </div>
      )}
      {/* oxlint-disable-next-line jsx-a11y/label-has-associated-control -- the field is its child */}
      <label className="flex w-fit items-center gap-2"><input type="checkbox" className="size-4 accent-accent" checked={draft.required} onChange={({ target }) => change({ required: target.checked })} />Wants an answer</label>
      {onRemove && <IconButton label={`Remove question ${place + 1}`} size="small" className="!absolute top-2 right-2" onClick={onRemove}><X /></IconButton>}
    </div>
  );
}
