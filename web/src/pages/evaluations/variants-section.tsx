/** Variants of a new evaluation: workflows with parameters, or a column of answers. */
import { useQuery } from '@tanstack/react-query';
import { Plus, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { variantsQuery, workflowQuery, workflowsQuery } from '@/api/queries';
import { Button, IconButton } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { Select, TextField, LabeledField, FieldErrors, FormSection } from '@/components/form-fields';
import { SchemaForm } from '@/components/forms/schema-form';
import type { FieldError } from '@/components/forms/values';
import { freeName, variantName, errorsUnder, newVariant, type VariantDraft } from './draft';
import type { TestsetColumn } from './queries';

interface Props {
  drafts: readonly VariantDraft[];
  columns: readonly TestsetColumn[];
  onChange: (drafts: readonly VariantDraft[]) => void;
  errors: readonly FieldError[];
}

export function VariantsSection({ drafts, columns, onChange, errors }: Props): ReactNode {
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const defaultWorkflow = workflows.find((workflow) => workflow.default) ?? workflows[0];
  const add = (fields: Partial<VariantDraft>) => {
    const variant = newVariant(fields);
    const usedNames = drafts.map(variantName);
    onChange([
      ...drafts,
      usedNames.includes(variantName(variant))
        ? { ...variant, name: freeName(variantName(variant), usedNames) }
        : variant,
    ]);
  };
  const lastDraft = drafts.findLast(({ kind }) => kind === 'workflow');
  return (
    <FormSection title="Variants" hint="Workflows to run. Add several to compare them.">
      <div className="flex flex-col gap-2">
        {drafts.map((draft, index) => (
          <VariantView
            key={draft.id}
            draft={draft}
            index={index}
            columns={columns}
            errors={errorsUnder(errors, `/variants/${index}`)}
            onChange={(next) => onChange(drafts.map((other) => (other.id === draft.id ? next : other)))}
            onRemove={() => onChange(drafts.filter((other) => other.id !== draft.id))}
          />
        ))}
      </div>
      <div className="mt-2 flex flex-wrap gap-1.5">
        <Button
          size="small"
          disabled={!defaultWorkflow}
          onClick={() =>
            add(
              lastDraft
                ? { workflow: lastDraft.workflow, variant: lastDraft.variant, parameters: lastDraft.parameters }
                : { workflow: defaultWorkflow?.name ?? '' },
            )
          }
        >
          <Plus aria-hidden className="size-3.5" />
          {drafts.length === 0 ? 'Add a workflow' : 'Add another variant'}
        </Button>
        <Button
          size="small"
          variant="quiet"
          disabled={columns.length === 0}
          onClick={() =>
            add({
              kind: 'column',
              column:
                columns.find(({ name }) => /old|answer|output|recorded/.test(name))?.name ?? columns[0]?.name ?? '',
            })
          }
        >
          <Plus aria-hidden className="size-3.5" />
          Use existing answers from a column
        </Button>
      </div>
      <FieldErrors errors={errors.filter(({ path }) => path === '/variants')} />
    </FormSection>
  );
}

interface ViewProps {
  draft: VariantDraft;
  index: number;
  columns: readonly TestsetColumn[];
  onChange: (draft: VariantDraft) => void;
  onRemove: () => void;
  errors: readonly FieldError[];
}

function VariantView({ draft, index, columns, onChange, onRemove, errors }: ViewProps): ReactNode {
  const isColumn = draft.kind === 'column';
  const hasError = (pointer: string) => errorsUnder(errors, pointer).length > 0;
  return (
    <div
      role="group"
      aria-label={`Variant ${index + 1}`}
      data-at={`/variants/${index}`}
      className="relative min-w-0 rounded-xl border px-3 py-2.5"
    >
      <div className="grid gap-3 pr-8 sm:grid-cols-3">
        {isColumn ? (
          <LabeledField label="Column">
            <Select
              value={draft.column}
              aria-invalid={hasError('/column')}
              onChange={(event) => onChange({ ...draft, column: event.target.value })}
            >
              {columns.map(({ name, kind }) => (
                <option key={name} value={name}>
                  {name} ({kind})
                </option>
              ))}
            </Select>
          </LabeledField>
        ) : (
          <WorkflowChoice draft={draft} onChange={onChange} hasError={hasError} />
        )}
        <LabeledField label="Name" hint="in this evaluation">
          <TextField
            dir="auto"
            maxLength={200}
            aria-invalid={hasError('/name')}
            placeholder={variantName({ ...draft, name: '' })}
            value={draft.name}
            onChange={(event) => onChange({ ...draft, name: event.target.value })}
          />
        </LabeledField>
      </div>
      <IconButton
        label={`Remove variant ${index + 1}`}
        size="small"
        className="absolute top-2 right-2"
        onClick={onRemove}
      >
        <X />
      </IconButton>
      {!isColumn && <Parameters draft={draft} onChange={onChange} errors={errorsUnder(errors, '/parameters')} />}
      <FieldErrors errors={errors.filter(({ path }) => !path.startsWith('/parameters'))} />
    </div>
  );
}

function WorkflowChoice({
  draft,
  onChange,
  hasError,
}: Pick<ViewProps, 'draft' | 'onChange'> & { hasError: (pointer: string) => boolean }): ReactNode {
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const savedVariants = useQuery({ ...variantsQuery(draft.workflow), enabled: draft.workflow !== '' }).data?.data ?? [];
  return (
    <>
      <LabeledField label="Workflow">
        <Select
          value={draft.workflow}
          aria-invalid={hasError('/workflow')}
          onChange={(event) => onChange({ ...draft, workflow: event.target.value, variant: 'default', parameters: {} })}
        >
          {!workflows.some(({ name }) => name === draft.workflow) && (
            <option value={draft.workflow}>{draft.workflow || 'Choose…'}</option>
          )}
          {workflows.map(({ name }) => (
            <option key={name}>{name}</option>
          ))}
        </Select>
      </LabeledField>
      <LabeledField label="Saved variant">
        <Select
          value={draft.variant}
          aria-invalid={hasError('/variant')}
          onChange={(event) => onChange({ ...draft, variant: event.target.value })}
        >
          {!savedVariants.some(({ name }) => name === 'default') && <option>default</option>}
          {savedVariants.map(({ id, name }) => (
            <option key={id}>{name}</option>
          ))}
        </Select>
      </LabeledField>
    </>
  );
}

function Parameters({ draft, onChange, errors }: Pick<ViewProps, 'draft' | 'onChange' | 'errors'>): ReactNode {
  const { data } = useQuery({ ...workflowQuery(draft.workflow), enabled: draft.workflow !== '' });
  const schema = data?.schemas.parameters as { properties?: object } | undefined;
  const count = Object.keys(schema?.properties ?? {}).length;
  if (!schema || count === 0) return null;
  const changedCount = Object.keys(draft.parameters).length;
  return (
    <div className="mt-2">
      <CollapsibleSection
        key={String(errors.length > 0)}
        title={changedCount ? `Parameters, ${changedCount} changed` : 'Parameters'}
        open={changedCount > 0 || errors.length > 0}
      >
        <div className="pt-1 pl-5">
          <SchemaForm
            schema={schema}
            value={draft.parameters}
            placeholder={data?.parameters ?? {}}
            errors={errors}
            onChange={(parameters) => onChange({ ...draft, parameters })}
          />
        </div>
      </CollapsibleSection>
    </div>
  );
}
