/** Which column goes where. What nobody changes is found out; it is shown as it will be. */
import { useQueries } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { workflow } from '@/api/queries';
import type { Fault } from '@/forms/values';
import { Section } from '@/trace/section';
import { Button } from '@/ui/button';
import { Select } from '@/ui/fields';
import { Labelled } from '@/ui/labelled';
import { under, type MapDraft, type VariantDraft } from './draft';
import { canBeSaid, inputNames, mapped } from './mapping';
import { Faults } from './part';
import type { NamedColumn } from './queries';

interface Props {
  map: MapDraft;
  columns: readonly NamedColumn[];
  variants: readonly VariantDraft[];
  onChange: (map: MapDraft) => void;
  faults: readonly Fault[];
}

export function MappingPart({ map, columns, variants, onChange, faults }: Props): ReactNode {
  const names = [...new Set(variants.flatMap(({ kind, workflow: name }) => (kind === 'workflow' && name ? [name] : [])))];
  const described = useQueries({ queries: names.map((name) => workflow(name)), combine: (all) => all.flatMap(({ data }) => (data ? [data] : [])) });
  const answers = variants.flatMap(({ kind, column }) => (kind === 'column' ? [column] : []));
  const usual = mapped(columns, described[0] ?? null, answers);
  const isChat = described.length === 0 || described.some((one) => one.is_chat);
  const inputs = [...new Set([...described.flatMap(inputNames), ...Object.keys(usual.inputs), ...Object.keys(map.inputs ?? {})])];
  const holds = map.inputs ?? usual.inputs;
  const shown = [
    isChat && described.length > 0 && `messages ← ${map.messages === undefined ? (usual.messages ?? 'nothing') : (map.messages ?? 'nothing')}`,
    (map.history ?? usual.history) && `said before ← ${map.history ?? usual.history}`,
    (map.script ?? usual.script) && `script ← ${map.script ?? usual.script}`,
    `expected ← ${map.expected === undefined ? (usual.expected ?? 'nothing') : (map.expected ?? 'nothing')}`,
    Object.keys(holds).length > 0 && `inputs ← ${Object.values(holds).join(', ')}`,
  ].filter(Boolean);
  const wrong = under(faults, '/map');
  const isChanged = Object.keys(map).length > 0;
  const setInput = (name: string, column: string) => {
    const { [name]: _, ...rest } = holds;
    onChange({ ...map, inputs: column ? { ...rest, [name]: column } : rest });
  };
  return (
    <div className="min-w-0">
      <Section
        key={String(wrong.length > 0)}
        title="Columns"
        open={wrong.length > 0 || isChanged}
        aside={<span className="min-w-0 truncate text-xs text-muted max-sm:max-w-40" dir="auto">{shown.join(' · ')}</span>}
      >
        <div className="grid gap-3 py-1 pl-5 sm:grid-cols-3">
          {isChat && <Choice label="Messages" value={map.messages} usual={usual.messages} columns={columns.filter(canBeSaid)} onChange={(messages) => onChange(put(map, 'messages', messages))} faults={under(wrong, '/messages')} />}
          {isChat && (usual.history !== null || map.history !== undefined || columns.filter(({ kind }) => kind === 'chat').length > 1) && (
            <Choice label="Said before" value={map.history} usual={usual.history} columns={columns.filter(canBeSaid)} onChange={(history) => onChange(put(map, 'history', history))} faults={under(wrong, '/history')} />
          )}
          {isChat && columns.some(({ kind }) => kind === 'script' || kind === 'json' || kind === 'mixed') && (
            <Choice label="Script" value={map.script} usual={usual.script} columns={columns} onChange={(script) => onChange(put(map, 'script', script))} faults={under(wrong, '/script')} />
          )}
          <Choice label="Expected" value={map.expected} usual={usual.expected} columns={columns} onChange={(expected) => onChange(put(map, 'expected', expected))} faults={under(wrong, '/expected')} />
        </div>
        {inputs.length > 0 && (
          <div className="py-1 pl-5">
            <div className="flex items-center gap-2">
              <h4 className="text-[13px] font-medium text-muted">Inputs</h4>
              {map.inputs !== undefined && <Button size="small" look="quiet" onClick={() => onChange(put(map, 'inputs', undefined))}>As found</Button>}
            </div>
            <div className="grid gap-3 sm:grid-cols-3">
              {inputs.map((name) => (
                <div key={name} className="min-w-0">
                  <Labelled label={name}>
                    <Select value={holds[name] ?? ''} onChange={(event) => setInput(name, event.target.value)}>
                      <option value="">Nothing</option>
                      {columns.map((column) => <option key={column.name} value={column.name}>{column.name}</option>)}
                    </Select>
                  </Labelled>
                  <Faults faults={under(wrong, `/inputs/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`)} />
                </div>
              ))}
            </div>
          </div>
        )}
      </Section>
    </div>
  );
}

function put<N extends keyof MapDraft>(map: MapDraft, name: N, value: MapDraft[N] | undefined): MapDraft {
  const { [name]: _, ...rest } = map;
  return value === undefined ? rest : { ...rest, [name]: value };
}

interface ChoiceProps {
  label: string;
  value: string | null | undefined;
  usual: string | null;
  columns: readonly NamedColumn[];
  onChange: (value: string | null | undefined) => void;
  faults: readonly Fault[];
}

/** A column's name may be anything, also empty: so the choices have numbers. */
function Choice({ label, value, usual, columns, onChange, faults }: ChoiceProps): ReactNode {
  const place = columns.findIndex(({ name }) => name === value);
  const chosen = value === undefined ? 'auto' : value === null ? 'none' : String(place);
  return (
    <div className="min-w-0">
      <Labelled label={label}>
        <Select
          value={chosen}
          aria-invalid={faults.length > 0}
          onChange={({ target }) => onChange(target.value === 'auto' ? undefined : target.value === 'none' ? null : (columns[Number(target.value)]?.name ?? null))}
        >
          <option value="auto">{usual === null ? 'Nothing found' : `${usual} (found)`}</option>
          <option value="none">Nothing</option>
          {columns.map(({ name, kind }, at) => <option key={name} value={String(at)}>{name} ({kind})</option>)}
        </Select>
      </Labelled>
      <Faults faults={faults} />
    </div>
  );
}
