/** /workflows: all of them, or one. */
import type { ReactNode } from 'react';
import { useTitle } from '@/lib/hooks';
import { WorkflowDetail } from './detail';
import { WorkflowList } from './list';

export default function WorkflowsPage({ name }: { name?: string | undefined }): ReactNode {
  useTitle(name ?? 'Workflows');
  return name ? <WorkflowDetail key={name} name={name} /> : <WorkflowList />;
}
