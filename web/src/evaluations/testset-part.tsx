/** Which test set, which revision of it, and how many of its rows. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Button } from '@/components/button';
import { Select, TextField, Labelled, Faults, FormPart } from '@/components/form-fields';
import { Problem, Spinner } from '@/components/status';
import type { FieldError } from '@/components/forms/values';
import { formatAge, pluralize } from '@/lib/format';
import { under, type Draft } from './draft';
import { revisionsOf, someTestsets } from './queries';

interface Props {
  draft: Draft;
  onChange: (draft: Partial<Draft>) => void;
  faults: readonly FieldError[];
}

export function TestsetPart({ draft, onChange, faults }: Props): ReactNode {
  const { data, error, refetch } = useQuery(someTestsets(''));
  const revisions = useQuery({ ...revisionsOf(draft.testset ?? ''), enabled: draft.testset !== null });
  const known = data?.data ?? [];
  const wrong = under(faults, '/testset');
  const isWrong = (at: string) => under(wrong, at).length > 0;
  return (
    <FormPart title="Test set" at="/testset">
      {error && <Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem>}
      {!data && !error && <Spinner />}
      {data && known.length === 0 && (
        <p className="text-muted">There is no test set yet. <Link href="/testsets" className="text-accent underline">Import a file or make one</Link>, then come back.</p>
      )}
      {known.length > 0 && (
        <div className="mt-2 grid gap-3 sm:grid-cols-[minmax(0,2fr)_minmax(0,2fr)_minmax(0,1fr)]">
          <Labelled label="Set">
            <Select value={draft.testset ?? ''} aria-invalid={isWrong('/id')} onChange={(event) => onChange({ testset: event.target.value || null, revision: 'head', map: {} })}>
              <option value="">Choose…</option>
              {draft.testset && !known.some(({ id }) => id === draft.testset) && <option value={draft.testset}>{draft.testset}</option>}
              {known.map(({ id, name, rows }) => <option key={id} value={id}>{name} ({pluralize(rows, 'row')})</option>)}
            </Select>
          </Labelled>
          <Labelled label="Revision">
            <Select disabled={!draft.testset} value={draft.revision} aria-invalid={isWrong('/revision')} onChange={(event) => onChange({ revision: event.target.value, map: {} })}>
              <option value="head">The newest</option>
              {revisions.data?.data.map(({ revision, message, created_at: at }) => (
                <option key={revision} value={String(revision)}>{revision}{message && `, ${message.slice(0, 60)}`} ({formatAge(at)})</option>
              ))}
            </Select>
          </Labelled>
          <Labelled label="Rows">
            <TextField
              type="number"
              min={1}
              placeholder="All"
              aria-invalid={isWrong('/rows')}
              title="So many, drawn at random; all of them when it is empty"
              value={draft.sample ?? ''}
              onChange={(event) => onChange({ sample: event.target.value === '' ? null : Math.max(1, Math.floor(Number(event.target.value))) })}
            />
          </Labelled>
        </div>
      )}
      <Faults faults={wrong} />
    </FormPart>
  );
}
